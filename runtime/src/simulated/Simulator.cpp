//===- Simulator.cpp - what runs next on simulated devices ----------------===//

#include "Simulator.h"

#include "NcclWork.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace mt::simulated;

namespace {

int64_t environmentNumber(const char *name, int64_t otherwise) {
  const char *value = getenv(name);
  return value && *value ? std::strtoll(value, nullptr, 10) : otherwise;
}

} // namespace

Simulator &mt::simulated::simulator() {
  // Never destroyed: threads of a job that has failed may still be here.
  static Simulator &instance = *new Simulator;
  return instance;
}

void Simulator::initialize() {
  devices = int(environmentNumber("MT_SIMULATED_DEVICES", 16));
  if (contexts > 0)
    return;
  int64_t threads = std::clamp<int64_t>(
      environmentNumber("MT_SIMULATED_THREADS", runtime::availableProcessors()),
      1, int64_t(mostWorkers));
  if (!pool || pool->threads() != threads)
    pool = std::make_unique<runtime::ThreadPool>(threads);
  memoryBytes =
      size_t(environmentNumber("MT_SIMULATED_MEMORY", int64_t(2) << 30));
  random.seed(uint64_t(environmentNumber("MT_SIMULATED_SEED", 0)));
  droppedWait = environmentNumber("MT_SIMULATED_DROP_WAIT", -1);
  kernels.checksShared = environmentNumber("MT_SIMULATED_SHARED", 1) != 0;
  waitCount = 0;
  streamCount = 0;
  host = {};
  memory = {};
  streams.clear();
  registrations.clear();
  orphans.clear();
}

std::unique_ptr<Stream> Simulator::makeStream() {
  auto stream = std::make_unique<Stream>();
  stream->number = streamCount++;
  streams.insert(stream.get());
  return stream;
}

void Simulator::release(std::unique_ptr<Stream> stream) {
  if (stream->queue.empty() || !streams.count(stream.get()))
    streams.erase(stream.get());
  else
    orphans.push_back(std::move(stream));
}

CUresult Simulator::freeMemory(CUdeviceptr address, bool isNccls) {
  Allocation *found = memory.find(uintptr_t(address), 0);
  if (!found || found->begin != address)
    return CUDA_ERROR_INVALID_VALUE;
  if (found->isNccls != isNccls)
    fail(std::string("expected memory to be freed by ") +
         (found->isNccls ? "ncclMemFree, found cuMemFree"
                         : "cuMemFree, found ncclMemFree"));
  for (const auto &[handle, registration] : registrations)
    if (found->holds(registration.range.begin, registration.range.bytes))
      fail("nccl: expected ncclCommDeregister before memory is freed, found "
           "it registered");
  memory.free(uintptr_t(address));
  return CUDA_SUCCESS;
}

void Simulator::fail(const std::string &text) {
  if (memory.problem.empty())
    memory.problem = "simulated device: " + text;
}

//===----------------------------------------------------------------------===//
// Queueing
//===----------------------------------------------------------------------===//

void Simulator::push(Stream &stream, Operation operation) {
  operation.host = host;
  stream.queue.push_back(std::move(operation));
}

void Simulator::enqueue(Stream &stream, Operation operation) {
  if (Capture *capture = stream.capture) {
    size_t lane = capture->laneOf(&stream);
    capture->clocks[lane].advance(lane);
    capture->graph.nodes.push_back({lane, std::move(operation)});
    return;
  }
  push(stream, std::move(operation));
  // Work may begin long before anybody waits for it.
  if (random() % 8 == 0)
    runSome(2);
  changed.notify_all();
}

void Simulator::record(Event &event, Stream &stream) {
  event.last = std::make_shared<Recording>();
  Operation operation;
  operation.kind = Operation::Record;
  operation.name = "cuEventRecord";
  operation.recording = event.last;
  enqueue(stream, std::move(operation));
  if (Capture *capture = stream.capture) {
    event.last->capture = capture;
    event.last->clock = capture->clocks[capture->laneOf(&stream)];
  }
}

CUresult Simulator::wait(Stream &stream, const Event &event) {
  if (!event.last)
    return CUDA_SUCCESS;
  Capture *capture = event.last->capture;
  if (stream.capture && stream.capture != capture)
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  // Of one device: those of several come in any order.
  bool isDropped = stream.device == 0 && waitCount++ == droppedWait;
  if (capture && !stream.capture) {
    // The wait brings the stream into the graph.
    stream.capture = capture;
    capture->lanes.push_back(&stream);
    capture->clocks.emplace_back();
  }
  if (capture) {
    // What a dropped wait would have joined still belongs to the graph.
    capture->clocks[capture->laneOf(&stream)].join(event.last->clock);
  }
  if (isDropped)
    return CUDA_SUCCESS;
  Operation operation;
  operation.kind = Operation::Wait;
  operation.name = "cuStreamWaitEvent";
  operation.recording = event.last;
  enqueue(stream, std::move(operation));
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// Whether the head of the stream may run now.
bool Simulator::mayRun(const Stream &stream) const {
  if (stream.queue.empty())
    return false;
  const Operation &head = stream.queue.front();
  if (head.kind == Operation::Wait)
    return head.recording->isDone;
  if (head.kind != Operation::Nccl)
    return true;
  const NcclWorld &world = *head.nccl->world;
  if (world.isAborted)
    return true;
  std::set<int> members;
  for (const Stream *other : streams)
    if (!other->queue.empty() && other->queue.front().nccl &&
        other->queue.front().nccl->world == head.nccl->world)
      members.insert(other->queue.front().nccl->member);
  return int(members.size()) == world.size;
}

bool Simulator::runOne() {
  if (hasFailed())
    return false;
  std::vector<Stream *> ready;
  for (Stream *stream : streams)
    if (mayRun(*stream))
      ready.push_back(stream);
  if (ready.empty())
    return false;
  // By number: addresses differ from run to run.
  std::sort(ready.begin(), ready.end(), [](const Stream *a, const Stream *b) {
    return a->number < b->number;
  });
  execute(*ready[random() % ready.size()]);
  return true;
}

bool Simulator::use(const Operation &operation, Stream &stream) {
  stream.clock.join(operation.host);
  stream.clock.advance(stream.number);
  memory.begin(operation.name, stream.number, stream.clock);
  bool isThere = true;
  for (const Range &range : operation.reads)
    isThere = isThere && memory.use(range, false);
  for (const Range &range : operation.writes)
    isThere = isThere && memory.use(range, true);
  return isThere;
}

void Simulator::execute(Stream &stream) {
  if (stream.queue.front().kind == Operation::Nccl)
    return executeNccl(stream.queue.front().nccl);
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (operation.kind == Operation::Wait) {
    stream.clock.join(operation.recording->clock);
  } else if (operation.kind == Operation::Record) {
    stream.clock.join(operation.host);
    operation.recording->clock = stream.clock;
    operation.recording->time = std::chrono::steady_clock::now();
    operation.recording->isDone = true;
  } else if (use(operation, stream)) {
    operation.run();
  }
  changed.notify_all();
}

/// Runs what all members have come to, or drops what has been aborted.
void Simulator::executeNccl(const std::shared_ptr<NcclWork> &work) {
  std::shared_ptr<NcclWorld> world = work->world;
  std::vector<NcclWork *> members(size_t(world->size), nullptr);
  std::vector<Operation> operations;
  bool isThere = true;
  for (Stream *stream : streams) {
    if (stream->queue.empty() || !stream->queue.front().nccl ||
        stream->queue.front().nccl->world != world)
      continue;
    operations.push_back(std::move(stream->queue.front()));
    stream->queue.pop_front();
    NcclWork *member = operations.back().nccl.get();
    members[size_t(member->member)] = member;
    if (!world->isAborted)
      isThere = use(operations.back(), *stream) && isThere;
  }
  if (!world->isAborted && isThere) {
    std::string problem = mismatch(members);
    if (problem.empty())
      runNccl(members);
    else
      fail(problem);
  }
  changed.notify_all();
}

void Simulator::runSome(int most) {
  for (int i = 0; i < most; ++i)
    if (!runOne())
      return;
}

void Simulator::runUntil(Lock &lock, const std::function<bool()> &isOver) {
  while (!isOver() && !hasFailed()) {
    if (!runOne())
      changed.wait_for(lock, std::chrono::milliseconds(1));
    // Other ranks queue meanwhile.
    lock.unlock();
    lock.lock();
  }
}

void Simulator::runKernel(Launch launch) {
  launch.order = random();
  std::string found = kernels.run(launch, *pool);
  if (memory.problem.empty())
    memory.problem = found;
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

size_t Capture::laneOf(const Stream *stream) const {
  return size_t(std::find(lanes.begin(), lanes.end(), stream) - lanes.begin());
}

CUresult Simulator::beginCapture(Stream &stream) {
  if (stream.capture)
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  stream.capture = new Capture;
  stream.capture->lanes = {&stream};
  stream.capture->clocks.resize(1);
  return CUDA_SUCCESS;
}

CUresult Simulator::endCapture(Stream &stream, Graph *&graph) {
  std::unique_ptr<Capture> capture(stream.capture);
  if (!capture || capture->lanes[0] != &stream) {
    capture.release();
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  bool isJoined = true;
  for (size_t lane = 0; lane < capture->lanes.size(); ++lane) {
    capture->lanes[lane]->capture = nullptr;
    isJoined &= capture->clocks[0].at(lane) == capture->clocks[lane].at(lane);
  }
  if (!isJoined)
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  capture->graph.lanes = capture->lanes.size();
  graph = new Graph(std::move(capture->graph));
  return CUDA_SUCCESS;
}

std::unique_ptr<GraphInstance> Simulator::instantiate(const Graph &graph) {
  auto instance = std::make_unique<GraphInstance>();
  instance->graph = graph;
  for (size_t lane = 0; lane < graph.lanes; ++lane)
    instance->lanes.push_back(makeStream());
  return instance;
}

void Simulator::launch(GraphInstance &instance, Stream &stream) {
  auto marker = [](Operation::Kind kind, std::shared_ptr<Recording> recording) {
    Operation operation;
    operation.kind = kind;
    operation.name = "cuGraphLaunch";
    operation.recording = std::move(recording);
    return operation;
  };
  auto begin = std::make_shared<Recording>();
  push(stream, marker(Operation::Record, begin));
  for (auto &lane : instance.lanes)
    push(*lane, marker(Operation::Wait, begin));
  std::map<Recording *, std::shared_ptr<Recording>> fresh;
  for (const Graph::Node &node : instance.graph.nodes) {
    Operation operation = node.operation;
    if (operation.recording) {
      auto &recording = fresh[operation.recording.get()];
      if (!recording)
        recording = std::make_shared<Recording>();
      operation.recording = recording;
    }
    push(*instance.lanes[node.lane], std::move(operation));
  }
  for (auto &lane : instance.lanes) {
    auto end = std::make_shared<Recording>();
    push(*lane, marker(Operation::Record, end));
    push(stream, marker(Operation::Wait, end));
  }
  changed.notify_all();
}
