//===- CollectivesTest.cpp - what every communicator must do --------------===//
//
// The conformance suite: every collective, element type and group shape, with
// values whose sums are exact. A new backend adds itself to `backends`.
//
//   mpirun -n 6 mt-runtime-tests --gtest_filter='*Collectives*'
//
// runs the cases of six ranks over MPI; LaunchTest.cpp does so for all sizes.
//
//===----------------------------------------------------------------------===//

#include "CollectiveCall.h"
#include "MemoryTransport.h"
#include "Simulated.h"
#include "SocketRanks.h"
#include "comm/Calls.h"
#include "comm/Guarded.h"
#include "comm/Launch.h"
#include "comm/LocalWorld.h"
#include "comm/StartedCalls.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace mt::runtime;

namespace {

struct Backend {
  const char *name;
  std::function<void(const Mesh &, const std::vector<AxisList> &, RankFn)> run;
};

/// Starts whatever is to run, and waits for it.
class StartAll : public StartedCalls {
public:
  using StartedCalls::StartedCalls;
  void run(const Collective &call) override {
    start(call);
    wait(call.id);
  }
};

/// `body` on started calls.
RankFn started(RankFn body) {
  return [body](Communicator &backend) {
    StartAll communicator(backend);
    runGuarded(communicator, body);
  };
}

/// A backend whose calls are started.
Backend startedOn(Backend backend) {
  return {backend.name, [run = backend.run](const Mesh &mesh,
                                            const auto &groups, RankFn body) {
            run(mesh, groups, started(std::move(body)));
          }};
}

void runLocal(const Mesh &mesh, const std::vector<AxisList> &groups,
              RankFn body) {
  runLocalRanks(std::make_shared<LocalWorld>(mesh, groups,
                                             std::vector<std::string>{}, 60.0),
                body);
}

template <int64_t bytesInFlight>
void runMessages(const Mesh &mesh, const std::vector<AxisList> &groups,
                 RankFn body) {
  EXPECT_EQ(runOverMessages(mesh, groups, {}, 60, bytesInFlight, body), "");
}

template <DeviceCollectives kind>
void runDevice(const Mesh &mesh, const std::vector<AxisList> &groups,
               RankFn body) {
  runOnDevice(kind, mesh, groups, std::move(body));
}

bool isLaunched() { return findLaunchedRank("").has_value(); }

Transport &joinedJob() {
  LaunchedRank self = *findLaunchedRank("");
  return joinJob(self, 60);
}

/// This process is one rank; the others run the same tests.
void runMpi(const Mesh &mesh, const std::vector<AxisList> &groups,
            RankFn body) {
  ProcessCommunicator communicator(joinedJob(), 60);
  communicator.setGroups(mesh, groups, {});
  runProcessRank(joinedJob(), communicator, body);
}

void runSockets(const Mesh &mesh, const std::vector<AxisList> &groups,
                RankFn body) {
  EXPECT_EQ(runOverSockets(mesh, groups, body), "");
}

/// Ranks as threads, the program of processes over queues (once with messages
/// that hold a few elements) and over sockets, and, under mpirun, processes
/// over MPI; and the same with started calls. Then memory of the simulated
/// device.
std::vector<Backend> backends() {
  if (isLaunched())
    return {{"mpi", runMpi}, startedOn({"mpi_started", runMpi})};
  return {{"local", runLocal},
          {"messages", runMessages<8 << 20>},
          {"messages_in_rounds", runMessages<1 << 9>},
          {"sockets", runSockets},
          startedOn({"local_started", runLocal}),
          startedOn({"messages_started", runMessages<8 << 20>}),
          startedOn({"sockets_started", runSockets}),
          {"nccl", runDevice<DeviceCollectives::Nccl>},
          {"nccl_started", runDevice<DeviceCollectives::NcclStarted>},
          {"staged", runDevice<DeviceCollectives::Staged>}};
}

struct Case {
  Backend backend;
  std::vector<int64_t> sizes;
  mt_dtype dtype;
};

int64_t product(const std::vector<int64_t> &sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const Backend &backend : backends())
    for (auto &sizes : std::vector<std::vector<int64_t>>{
             {1}, {2}, {3}, {4}, {2, 2}, {2, 3}, {2, 2, 2}})
      for (mt_dtype dtype : {MT_F32, MT_F64, MT_BF16, MT_I32, MT_I64})
        if (!isLaunched() || joinedJob().ranks() == product(sizes))
          result.push_back({backend, sizes, dtype});
  return result;
}

std::string caseName(const testing::TestParamInfo<Case> &info) {
  std::string name = info.param.backend.name;
  for (int64_t size : info.param.sizes)
    name += "_" + std::to_string(size);
  return name + "_" + dtypeName(info.param.dtype);
}

class Collectives : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    for (size_t i = 0; i < GetParam().sizes.size(); ++i)
      mesh.axes.push_back({std::string(1, char('a' + i)), GetParam().sizes[i]});
    // Every ordered choice of axes.
    for (size_t a = 0; a < mesh.axes.size(); ++a)
      addGroups({int64_t(a)});
    groups.push_back({});
  }
  void addGroups(const AxisList &axes) {
    groups.push_back(axes);
    for (size_t a = 0; a < mesh.axes.size(); ++a)
      if (std::find(axes.begin(), axes.end(), int64_t(a)) == axes.end()) {
        AxisList longer = axes;
        longer.push_back(int64_t(a));
        addGroups(longer);
      }
  }
  /// Calls `body(communicator, group, members)` on every rank and group.
  template <typename BodyFn> void everywhere(BodyFn body) {
    GetParam().backend.run(mesh, groups, [&](Communicator &communicator) {
      for (size_t g = 0; g < groups.size(); ++g)
        body(communicator, int64_t(g),
             mesh.members(communicator.rank(), groups[g]));
    });
  }

  Mesh mesh;
  std::vector<AxisList> groups;
};

TEST_P(Collectives, IndexInTheGroup) {
  everywhere([&](Communicator &c, int64_t group, auto members) {
    EXPECT_EQ(c.groupSize(group), int64_t(members.size()));
    EXPECT_EQ(members[size_t(c.groupIndex(group))], c.rank());
  });
}

TEST_P(Collectives, AllReduce) {
  const std::vector<int64_t> counts = {1, 7, 0, 1030};
  everywhere([&](Communicator &c, int64_t group, auto members) {
    for (mt_reduction reduction : {MT_SUM, MT_MAX, MT_MIN})
      for (bool inPlace : {false, true}) {
        Call call(CollectiveKind::AllReduce, group, GetParam().dtype, c.rank());
        call.reduction = reduction;
        call.counts = counts.data();
        for (int64_t count : counts)
          call.add(count, count);
        call.run(c, inPlace);
        std::vector<Tensor> &results = inPlace ? call.in : call.out;
        for (size_t t = 0; t < counts.size(); ++t)
          for (int64_t i = 0; i < counts[t]; ++i)
            ASSERT_EQ(results[t].get(i),
                      combine(reduction, members, int64_t(t), i));
      }
  });
}

TEST_P(Collectives, AllGather) {
  const std::vector<int64_t> outer = {1, 3, 2}, inner = {5, 2, 0};
  everywhere([&](Communicator &c, int64_t group, auto members) {
    int64_t n = int64_t(members.size());
    Call call(CollectiveKind::AllGather, group, GetParam().dtype, c.rank());
    call.outer = outer.data();
    call.inner = inner.data();
    for (size_t t = 0; t < outer.size(); ++t)
      call.add(outer[t] * inner[t], outer[t] * n * inner[t]);
    call.run(c);
    for (size_t t = 0; t < outer.size(); ++t)
      for (int64_t o = 0; o < outer[t]; ++o)
        for (int64_t m = 0; m < n; ++m)
          for (int64_t i = 0; i < inner[t]; ++i)
            ASSERT_EQ(
                call.out[t].get((o * n + m) * inner[t] + i),
                element(members[size_t(m)], int64_t(t), o * inner[t] + i));
  });
}

TEST_P(Collectives, ReduceScatter) {
  const std::vector<int64_t> outer = {1, 3, 2}, inner = {1025, 2, 0};
  everywhere([&](Communicator &c, int64_t group, auto members) {
    int64_t n = int64_t(members.size()), me = c.groupIndex(group);
    for (mt_reduction reduction : {MT_SUM, MT_MAX, MT_MIN}) {
      Call call(CollectiveKind::ReduceScatter, group, GetParam().dtype,
                c.rank());
      call.reduction = reduction;
      call.outer = outer.data();
      call.inner = inner.data();
      for (size_t t = 0; t < outer.size(); ++t)
        call.add(outer[t] * n * inner[t], outer[t] * inner[t]);
      call.run(c);
      for (size_t t = 0; t < outer.size(); ++t)
        for (int64_t o = 0; o < outer[t]; ++o)
          for (int64_t i = 0; i < inner[t]; ++i)
            ASSERT_EQ(call.out[t].get(o * inner[t] + i),
                      combine(reduction, members, int64_t(t),
                              (o * n + me) * inner[t] + i));
    }
  });
}

TEST_P(Collectives, AllToAll) {
  everywhere([&](Communicator &c, int64_t group, auto members) {
    int64_t n = int64_t(members.size()), me = c.groupIndex(group);
    // Global array [a, p, b, q, c]: held cut along q, wanted cut along p, and
    // the other way round.
    const int64_t A = 2, P = 2 * n, B = 3, Q = 3 * n, C = 2;
    std::vector<int64_t> sizes = {A, P, B, Q / n, C, A, P / n, B, Q, C};
    std::vector<int64_t> splitFirst = {1, 0};
    Call call(CollectiveKind::AllToAll, group, GetParam().dtype, c.rank());
    call.sizes = sizes.data();
    call.splitFirst = splitFirst.data();
    int64_t count = A * P * B * Q * C / n;
    call.add(count, count);
    call.add(count, count);
    // Both arrays are blocks of one global array.
    auto fill = [&](Tensor &tensor, bool cutP, auto visit) {
      int64_t p = cutP ? P / n : P, q = cutP ? Q : Q / n, at = 0;
      for (int64_t i = 0; i < A; ++i)
        for (int64_t j = 0; j < p; ++j)
          for (int64_t k = 0; k < B; ++k)
            for (int64_t l = 0; l < q; ++l)
              for (int64_t m = 0; m < C; ++m, ++at) {
                int64_t globalP = cutP ? me * p + j : j;
                int64_t globalQ = cutP ? l : me * q + l;
                int64_t index =
                    (((i * P + globalP) * B + k) * Q + globalQ) * C + m;
                visit(tensor, at, double(index % 127));
              }
    };
    auto set = [](Tensor &t, int64_t at, double v) { t.set(at, v); };
    auto expect = [](Tensor &t, int64_t at, double v) {
      ASSERT_EQ(t.get(at), v);
    };
    fill(call.in[0], false, set);
    fill(call.in[1], true, set);
    call.run(c);
    fill(call.out[0], true, expect);
    fill(call.out[1], false, expect);
  });
}

TEST_P(Collectives, CollectivePermute) {
  const std::vector<int64_t> counts = {4, 0, 9};
  everywhere([&](Communicator &c, int64_t group, auto members) {
    int64_t n = int64_t(members.size()), me = c.groupIndex(group);
    std::vector<int64_t> sources;
    for (int64_t m = 0; m < n; ++m)
      sources.push_back((m + n - 1) % n);
    Call call(CollectiveKind::CollectivePermute, group, GetParam().dtype,
              c.rank());
    call.counts = counts.data();
    call.sources = sources.data();
    for (int64_t count : counts)
      call.add(count, count);
    call.run(c);
    for (size_t t = 0; t < counts.size(); ++t)
      for (int64_t i = 0; i < counts[t]; ++i)
        ASSERT_EQ(call.out[t].get(i),
                  element(members[size_t(sources[size_t(me)])], int64_t(t), i));
  });
}

/// What rank 0 sees of everybody's sum of numbers that do not add exactly.
std::vector<std::vector<double>> inexactSums(const Case &c, const Mesh &mesh,
                                             const std::vector<AxisList> &g) {
  constexpr int64_t count = 97;
  std::vector<std::vector<double>> results;
  c.backend.run(mesh, g, [&](Communicator &communicator) {
    Call call(CollectiveKind::AllReduce, worldGroup, c.dtype,
              communicator.rank());
    call.counts = &count;
    call.add(count, count);
    for (int64_t i = 0; i < count; ++i)
      call.in[0].set(i, 1.0 / double(3 + communicator.rank() * 31 + i));
    call.run(communicator);
    std::vector<double> mine = call.out[0].values();
    communicator.collect("the test", 0, mine.data(), count * 8,
                         [&](int64_t, const void *data) {
                           auto *values = static_cast<const double *>(data);
                           results.emplace_back(values, values + count);
                         });
  });
  return results;
}

TEST_P(Collectives, AllMembersGetTheSameBitsOnEveryBackend) {
  auto results = inexactSums(GetParam(), mesh, groups);
  if (isLaunched() && joinedJob().rank() != 0)
    return;
  ASSERT_EQ(int64_t(results.size()), mesh.ranks());
  for (const auto &result : results)
    EXPECT_EQ(result, results[0]);
  Case local = GetParam();
  local.backend.run = runLocal;
  EXPECT_EQ(inexactSums(local, mesh, groups), results);
}

TEST_P(Collectives, CollectGivesEveryRankInOrder) {
  std::vector<int64_t> seen, expected;
  GetParam().backend.run(mesh, groups, [&](Communicator &c) {
    for (int64_t round = 0; round < 3; ++round) {
      // Ranks may have different amounts.
      std::vector<int64_t> values(size_t(c.rank() * 500 + 1),
                                  c.rank() * 10 + round);
      c.collect("the test", round, values.data(), int64_t(values.size() * 8),
                [&](int64_t rank, const void *data) {
                  auto *received = static_cast<const int64_t *>(data);
                  EXPECT_EQ(received[0], rank * 10 + round);
                  EXPECT_EQ(received[rank * 500], rank * 10 + round);
                  seen.push_back(rank);
                });
    }
    for (int64_t i = 0; c.rank() == 0 && i < 3 * c.ranks(); ++i)
      expected.push_back(i % c.ranks());
  });
  EXPECT_EQ(seen, expected);
}

// What is counted is what is sent: the bytes of a ring, spread over the
// members as evenly as whole elements allow.
TEST(Messages, SendWhatARingWould) {
  const Mesh mesh{{{"a", 2}, {"b", 3}}};
  const std::vector<int64_t> counts = {6, 600}, outer = {2, 3}, inner = {6, 5};
  for (auto kind : {CollectiveKind::AllReduce, CollectiveKind::AllGather,
                    CollectiveKind::ReduceScatter}) {
    std::vector<int64_t> sent, counted(6);
    std::string message = runOverMessages(
        mesh, {{0, 1}}, {}, 60, 512,
        [&](Communicator &c) {
          Call call(kind, 0, MT_F32, c.rank());
          call.counts = kind == CollectiveKind::AllReduce ? counts.data() : 0;
          call.outer = call.counts ? nullptr : outer.data();
          call.inner = call.counts ? nullptr : inner.data();
          for (size_t t = 0; t < 2; ++t)
            call.add(600, 600);
          call.run(c);
          counted[size_t(c.rank())] = ringBytes(call, 6);
        },
        &sent);
    EXPECT_EQ(message, "");
    EXPECT_EQ(sent, counted) << kindName(kind);
  }
}

/// Leaves MPI after the last test.
class LeaveJob : public testing::Environment {
public:
  void TearDown() override {
    if (isLaunched())
      joinedJob().finish();
  }
};
[[maybe_unused]] testing::Environment *const leaveJob =
    testing::AddGlobalTestEnvironment(new LeaveJob);

INSTANTIATE_TEST_SUITE_P(All, Collectives, testing::ValuesIn(cases()),
                         caseName);

} // namespace
