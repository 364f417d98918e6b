//===- nvtx_recorder.c - a tool that writes ranges down -------------------===//
//
// NVTX opens it where NVTX_INJECTION64_PATH names it. A line of the file
// MT_NVTX_RECORD is a range that begins or ends: `THREAD DEPTH + NAME`,
// `THREAD DEPTH -`.
//
//===----------------------------------------------------------------------===//

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *record;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int threadCount;
static __thread int thread = -1, depth;
static char domainName[64];

static void write(const char *kind, const char *name) {
  pthread_mutex_lock(&mutex);
  if (thread < 0)
    thread = threadCount++;
  fprintf(record, "%d %d %s%s%s\n", thread, depth, kind, *name ? " " : "",
          name);
  fflush(record);
  pthread_mutex_unlock(&mutex);
}

static nvtxDomainHandle_t NVTX_API create(const char *name) {
  strncpy(domainName, name, sizeof domainName - 1);
  return (nvtxDomainHandle_t)domainName;
}

static int NVTX_API push(nvtxDomainHandle_t domain,
                         const nvtxEventAttributes_t *attributes) {
  if (strcmp((const char *)domain, "mt") != 0)
    return -1;
  write("+", attributes->message.ascii);
  return depth++;
}

static int NVTX_API pop(nvtxDomainHandle_t domain) {
  (void)domain;
  --depth;
  write("-", "");
  return depth;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t getTable) {
  const NvtxExportTableCallbacks *callbacks = getTable(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table;
  unsigned size;
  const char *path = getenv("MT_NVTX_RECORD");
  record = path ? fopen(path, "w") : NULL;
  if (!record ||
      !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
    return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
  return 1;
}
