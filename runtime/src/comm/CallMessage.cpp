//===- CallMessage.cpp - a call as the other members see it ---------------===//
//
//   kind id group dtype reduction tensors bytes, length of each size array,
//   the arrays, length of the place and its characters, eight a word
//
//===----------------------------------------------------------------------===//

#include "CallMessage.h"

#include "mt/error.h"

#include <cstring>

using namespace mt::runtime;

namespace {

struct SizeArray {
  const int64_t *Collective::*array;
  /// Elements a tensor and a member.
  int64_t perTensor, perMember;
};

constexpr SizeArray arrays[] = {
    {&Collective::counts, 1, 0},     {&Collective::outer, 1, 0},
    {&Collective::inner, 1, 0},      {&Collective::sizes, 5, 0},
    {&Collective::splitFirst, 1, 0}, {&Collective::sources, 0, 1},
};

constexpr size_t fixedWords = 7;
constexpr size_t arrayCount = sizeof arrays / sizeof arrays[0];

} // namespace

std::vector<int64_t> mt::runtime::encodeCall(const Collective &call,
                                             int64_t bytes, int64_t members) {
  std::vector<int64_t> words = {
      int64_t(call.kind), call.id,      call.group, call.dtype,
      call.reduction,     call.tensors, bytes};
  for (const SizeArray &a : arrays)
    words.push_back(
        call.*a.array ? call.tensors * a.perTensor + members * a.perMember : 0);
  for (size_t i = 0; i < arrayCount; ++i)
    if (const int64_t *array = call.*arrays[i].array)
      words.insert(words.end(), array, array + words[fixedWords + i]);
  size_t length = std::strlen(call.place), first = words.size() + 1;
  words.push_back(int64_t(length));
  words.resize(first + length / sizeof(int64_t) + 1, 0);
  std::memcpy(&words[first], call.place, length);
  return words;
}

ReceivedCall::ReceivedCall(std::vector<int64_t> received)
    : words(std::move(received)) {
  size_t at = fixedWords + arrayCount;
  auto require = [&](bool holds) {
    if (!holds)
      throw Error("expected the call of another rank, found another message");
  };
  require(words.size() > at);
  call.kind = CollectiveKind(words[0]);
  call.id = words[1];
  call.group = words[2];
  call.dtype = int32_t(words[3]);
  call.reduction = int32_t(words[4]);
  call.tensors = words[5];
  bytes = words[6];
  for (size_t i = 0; i < arrayCount; ++i) {
    int64_t length = words[fixedWords + i];
    require(length >= 0 && uint64_t(length) < words.size() - at);
    if (length > 0)
      call.*arrays[i].array = &words[at];
    at += size_t(length);
  }
  uint64_t length = uint64_t(words[at++]);
  require(length / sizeof(int64_t) < words.size() - at);
  call.place = reinterpret_cast<const char *>(&words[at]);
}
