//===- DeviceTest.cpp - a whole job on the simulated device ---------------===//

#include "Simulated.h"
#include "Support.h"
#include "cuda/Images.h"
#include "mt/runtime.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

class DeviceTest : public testing::Test {
protected:
  DeviceTest() {
    environment.simulate();
    std::string text;
    for (int i = 0; i < 300; ++i)
      text += char((i * i + i / 3) % 6);
    options.data = {folder.write("text.txt", text)};
    options.progress = &progress;
    options.warnings = &warnings;
    options.steps = 4;
    options.timeoutSeconds = 30;
    options.hyperparameters.learningRate = 0.1;
  }

  void run(const std::string &step) {
    options.step = MT_FAKE_STEPS "/" + step + ".so";
    runJob(options);
    // What went wrong when all was released has nobody to throw it.
    EXPECT_EQ(simulatedProblem(), "");
  }
  std::string messageOf(const std::string &step) {
    return errorOf([&] { run(step); });
  }
  /// The weights after the last step.
  std::string train(const std::string &step) {
    options.save = folder.path("model");
    run(step);
    return folder.read("model/model.safetensors") +
           folder.read("model/optimizer.safetensors");
  }
  std::vector<double> losses() {
    std::vector<double> result;
    std::istringstream stream(progress.str());
    for (std::string word; stream >> word;)
      if (word == "loss" && stream >> word)
        result.push_back(std::stod(word));
    progress.str("");
    return result;
  }

  Environment environment;
  TemporaryFolder folder;
  JobOptions options;
  std::ostringstream progress, warnings;
};

TEST_F(DeviceTest, TrainsTheSameOnAnyMesh) {
  run("device1");
  std::vector<double> reference = losses();
  ASSERT_EQ(reference.size(), 4u);
  EXPECT_LT(reference[1], reference[0]);
  for (const char *step : {"device2", "device2-microbatches"}) {
    run(step);
    std::vector<double> found = losses();
    ASSERT_EQ(found.size(), 4u);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], reference[i], 3e-6) << step;
  }
  EXPECT_EQ(warnings.str(), "");
}

// Whatever the order in which a device does its work, with graphs or without,
// and by NCCL or through the host.
TEST_F(DeviceTest, TrainsToTheSameBits) {
  for (const char *step : {"device1", "device2", "device2-microbatches"}) {
    options.usesGraphs = false;
    std::string reference = train(step);
    for (int seed = 1; seed < 12; ++seed) {
      environment.set("MT_SIMULATED_SEED", std::to_string(seed));
      options.usesGraphs = seed % 2 == 0;
      environment.set("MT_DEVICE_COLLECTIVES", seed % 3 ? "nccl" : "staged");
      EXPECT_EQ(train(step), reference) << step << ", seed " << seed;
    }
    environment.set("MT_DEVICE_COLLECTIVES", "");
  }
}

TEST_F(DeviceTest, ResumesToTheSameBits) {
  options.steps = 6;
  std::string whole = train("device2");
  options.steps = 3;
  train("device2");
  options.resume = options.save;
  options.steps = 6;
  EXPECT_EQ(train("device2"), whole);
}

TEST_F(DeviceTest, CountsWhatTheManifestPredicts) {
  options.collectives = true;
  run("device2");
  EXPECT_EQ(warnings.str(), "");
}

TEST_F(DeviceTest, SavesGradients) {
  options.saveGradients = folder.path("g.safetensors");
  run("device2");
  SafetensorsFile file(options.saveGradients);
  EXPECT_EQ(file.find("model.weight")->shape, (Shape{4, 4}));
  EXPECT_FLOAT_EQ(float(file.find("model.scale")->loadFloat(0)), 0.125f);
}

TEST_F(DeviceTest, SharesADevice) {
  std::string reference = train("device2");
  environment.set("MT_SIMULATED_DEVICES", "1");
  EXPECT_EQ(train("device2"), reference);
  EXPECT_EQ(warnings.str(),
            "mt-run: warning: cuda: expected a device for each of the 2 ranks, "
            "found 1: ranks share them, and collectives pass through the "
            "host\n");
  environment.set("MT_DEVICE_COLLECTIVES", "nccl");
  EXPECT_EQ(messageOf("device2"),
            "cuda: expected a device for each of the 2 ranks of this machine, "
            "found 1");
}

TEST_F(DeviceTest, SaysWhichLibraryIsMissing) {
  for (const auto &[variable, start] :
       std::vector<std::pair<std::string, std::string>>{
           {"MT_CUDA_DRIVER", "cuda"},
           {"MT_CUBLASLT", "cublaslt"},
           {"MT_NCCL", "nccl"}}) {
    Environment missing;
    missing.set(variable, "/none.so");
    EXPECT_EQ(messageOf("device2"),
              start +
                  ": expected the library /none.so, found none that can be "
                  "opened; " +
                  variable + " may name another");
  }
  // Where it is asked for.
  {
    Environment missing;
    missing.set("MT_CUDNN", "/none.so");
    EXPECT_EQ(messageOf("device1"), "");
    options.usesCudnn = true;
    EXPECT_EQ(messageOf("device1"),
              "cudnn: expected the library /none.so, found none that can be "
              "opened; MT_CUDNN may name another");
    options.usesCudnn = false;
  }
  // One rank needs no NCCL.
  environment.set("MT_NCCL", "/none.so");
  EXPECT_EQ(messageOf("device1"), "");
}

TEST_F(DeviceTest, SaysWhatIsTooOld) {
  {
    Environment old;
    old.set("MT_SIMULATED_DRIVER_VERSION", "11080");
    EXPECT_EQ(messageOf("device2"), "cuda: expected a driver of version 12.0 "
                                    "or newer, found 11.8");
  }
  environment.set("MT_SIMULATED_NCCL_VERSION", "21602");
  EXPECT_EQ(messageOf("device2"),
            "nccl: expected version 2.18.0 or newer, found 2.16.2");
  options.usesCudnn = true;
  environment.set("MT_SIMULATED_CUDNN_VERSION", "8907");
  EXPECT_EQ(messageOf("device1"),
            "cudnn: expected version 9.0.0 or newer, found 8.9.7");
}

TEST_F(DeviceTest, SaysThatThereIsNoDevice) {
  environment.set("MT_SIMULATED_DEVICES", "0");
  EXPECT_EQ(messageOf("device1"), "cuda: expected a device, found none");
}

TEST_F(DeviceTest, SaysHowMuchMemoryItNeeds) {
  std::string message = messageOf("device1-large");
  expectContains(message, "rank 0: cuda: expected 3033");
  expectContains(message, " bytes of free memory on the device of rank 0, "
                          "found 2147483648");
}

// The workspace of attention is a part of it: 256 bytes for each of 14
// operations, on the simulated library.
TEST_F(DeviceTest, SaysHowMuchMemoryAttentionNeeds) {
  auto bytes = [&] {
    std::string text = messageOf("device1-attention-large");
    std::string start = "cuda: expected ";
    return std::stoll(text.substr(text.find(start) + start.size()));
  };
  long long without = bytes();
  options.usesCudnn = true;
  EXPECT_EQ(bytes() - without, 14 * 256);
}

// Queued, or as a part of a graph.
TEST_F(DeviceTest, AttendsByALibraryWhereItIsAskedTo) {
  std::string reference = train("device1");
  EXPECT_EQ(train("device1-attention"), reference);
  options.usesCudnn = true;
  EXPECT_EQ(train("device1"), reference);
  options.usesGraphs = false;
  std::string attended = train("device1-attention");
  EXPECT_NE(attended, reference);
  options.usesGraphs = true;
  for (int seed = 0; seed < 4; ++seed) {
    environment.set("MT_SIMULATED_SEED", std::to_string(seed));
    EXPECT_EQ(train("device1-attention"), attended) << seed;
  }
}

TEST_F(DeviceTest, SaysThatNoImageFits) {
  expectContains(messageOf("device1-images"),
                 "expected code for a device of compute capability 0.0, found "
                 "none");
}

TEST_F(DeviceTest, EndsWhereARankFails) {
  std::string message = messageOf("device2-fails");
  EXPECT_EQ(message,
            options.step +
                ": rank 0: expected entry update to return 0, found 7");
}

TEST_F(DeviceTest, EndsWhereARankStaysAway) {
  options.timeoutSeconds = 0.3;
  std::string message = messageOf("device2-stuck");
  EXPECT_EQ(
      message,
      options.step +
          ": rank 0: expected the device to finish its work within 0.3 "
          "s, found it waiting: a rank may not have come to a collective");
}

// By every communicator that uses it.
TEST_F(DeviceTest, RegistersItsMemoryWithNccl) {
  environment.set("MT_SIMULATED_NCCL_REGISTERED", "1");
  for (const char *step : {"device2", "device2-microbatches"})
    EXPECT_EQ(messageOf(step), "");
}

TEST_F(DeviceTest, EndsWhereNcclFails) {
  environment.set("MT_SIMULATED_NCCL_ERROR", "1");
  expectContains(messageOf("device2"),
                 "nccl: expected collectives without errors, found error 1");
}

// The others are where they connect, and wait for it.
TEST_F(DeviceTest, EndsWhereARankFailsToConnect) {
  for (const char *rank : {"0", "1"}) {
    environment.set("MT_SIMULATED_NCCL_FAILS", rank);
    std::string message = messageOf("device2");
    EXPECT_EQ(message, options.step + ": rank " + rank +
                           ": nccl: ncclCommInitRankConfig: expected success, "
                           "found error 4");
  }
}

TEST_F(DeviceTest, EndsWhereARankDoesNotConnect) {
  options.timeoutSeconds = 0.3;
  for (const char *rank : {"0", "1"}) {
    environment.set("MT_SIMULATED_NCCL_ABSENT", rank);
    expectContains(messageOf("device2"),
                   "nccl: expected all ranks to connect within 0.3 s, found it "
                   "waiting for some");
  }
}

TEST_F(DeviceTest, EndsWhereNothingWaitsForACollective) {
  expectContains(messageOf("device2-no-wait"),
                 "all_reduce 1: expected mt_wait before the end of entry "
                 "update, found none");
}

TEST_F(DeviceTest, FindsCallsThatDiffer) {
  expectContains(messageOf("device2-mismatch"),
                 "simulated device: nccl: expected calls that match, found "
                 "member 0 at all_reduce of 16 elements of type 7 and member 1 "
                 "at all_reduce of 15 elements of type 7");
}

TEST_F(DeviceTest, FindsWhatIsOutsideOfMemory) {
  expectContains(messageOf("device1-outside"),
                 "simulated device: difference on stream 0 writes 4 bytes "
                 "outside of any allocation");
}

TEST_F(DeviceTest, FindsThreadsThatDoNotMeet) {
  expectContains(messageOf("device1-diverges"),
                 "sum_up: expected all threads of block 0 at one barrier, "
                 "found 63 there, 0 at a barrier of their warp, 0 at a "
                 "shuffle, 0 at a product, 1 at their end");
}

// Of the six waits of a step the last one, mt_wait, comes behind a collective
// that was started later and is over: its loss is none.
TEST_F(DeviceTest, EveryWaitBetweenStreamsMatters) {
  environment.set("MT_DEVICE_COLLECTIVES", "nccl");
  options.steps = 1;
  for (int wait = 0; wait < 6; ++wait) {
    environment.set("MT_SIMULATED_DROP_WAIT", std::to_string(wait));
    for (int seed = 0; seed < 4; ++seed) {
      environment.set("MT_SIMULATED_SEED", std::to_string(seed));
      std::string message = messageOf("device1");
      if (wait < 5)
        expectContains(message, "simulated device: race: ");
      else
        EXPECT_EQ(message, "");
    }
  }
}

// The library beside the runtime, without a word in the environment.
TEST_F(DeviceTest, IsSimulatedOnDemand) {
  std::string log = folder.path("log.jsonl");
  std::string command = "env -u MT_CUDA_DRIVER -u MT_CUBLASLT -u MT_NCCL "
                        "ASAN_OPTIONS=detect_leaks=0 " MT_RUN " " MT_FAKE_STEPS
                        "/device2.so --data " +
                        options.data[0] + " --steps 3 --log " + log;
  EXPECT_EQ(std::system((command + " --simulate-device >/dev/null").c_str()),
            0);
  std::string lines = folder.read("log.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
}

TEST_F(DeviceTest, RefusesWhatMeasuresTheHost) {
  options.checkMemory = true;
  EXPECT_EQ(messageOf("device1"),
            "--check-memory: expected a step for the target host, found cuda");
}

TEST_F(DeviceTest, RefusesCudnnOnTheHost) {
  options.usesCudnn = true;
  EXPECT_EQ(messageOf("fake1"),
            "--cudnn: expected a step for the target cuda, found host");
}

TEST(DeviceImages, FitTheDevice) {
  const std::vector<DeviceImage> images = {
      {"ptx", "sm_80", "p"},        {"cubin", "sm_90", "c90"},
      {"cubin", "sm_80", "c80"},    {"cubin", "sm_86", "c86"},
      {"cubin", "sm_100a", "c100"}, {"twin", "", "t"}};
  auto choose = [&](int major, int minor) {
    return chooseImage(images, {major, minor}).symbol;
  };
  EXPECT_EQ(choose(0, 0), "t");
  EXPECT_EQ(choose(8, 0), "c80");
  EXPECT_EQ(choose(8, 9), "c86");
  EXPECT_EQ(choose(9, 0), "c90");
  EXPECT_EQ(choose(10, 0), "c100");
  EXPECT_EQ(choose(10, 3), "p");
  EXPECT_EQ(choose(12, 0), "p");
  EXPECT_EQ(errorOf([&] { choose(7, 5); }),
            "expected code for a device of compute capability 7.5, found ptx "
            "of sm_80, cubin of sm_90, cubin of sm_80, cubin of sm_86, cubin "
            "of sm_100a, twin");
}

} // namespace
