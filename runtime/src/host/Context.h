//===- Context.h - one rank, as compiled code holds it -----------*- C++
//-*-===//

#ifndef MT_RUNTIME_HOST_CONTEXT_H
#define MT_RUNTIME_HOST_CONTEXT_H

#include "mt/communicator.h"

struct mt_context {
  mt::runtime::Communicator *communicator;
};

#endif // MT_RUNTIME_HOST_CONTEXT_H
