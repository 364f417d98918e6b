//===- SafetensorsTest.cpp ------------------------------------------------===//

#include "Support.h"

#include <cmath>

using namespace mt::runtime;

namespace {

const std::string goodHeader =
    R"({"__metadata__":{"format":"pt"},)"
    R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}})";

/// The message of a file of these bytes, without its path.
std::string messageOf(const std::string &bytes) {
  TemporaryFolder folder;
  std::string path = folder.write("x.safetensors", bytes);
  std::string message = errorOf([&] { SafetensorsFile file(path); });
  if (message.empty())
    return "";
  EXPECT_EQ(message.find(path + ": "), 0u) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message.substr(path.size() + 2);
}

TEST(Safetensors, ReadsEveryType) {
  TemporaryFolder folder;
  std::string data =
      bytesOf(std::vector<float>{1.5f}) + bytesOf(std::vector<double>{2.5}) +
      bytesOf(std::vector<uint16_t>{0x3c00, 0x4040}) +
      bytesOf(std::vector<int64_t>{-5}) + bytesOf(std::vector<int32_t>{-6});
  // A header of a length that leaves the data unaligned.
  std::string path = folder.write(
      "x.safetensors",
      safetensors(R"({"f":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                  R"("d":{"dtype":"F64","shape":[1],"data_offsets":[4,12]},)"
                  R"("h":{"dtype":"F16","shape":[1],"data_offsets":[12,14]},)"
                  R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[14,16]},)"
                  R"("l":{"dtype":"I64","shape":[1],"data_offsets":[16,24]},)"
                  R"("i":{"dtype":"I32","shape":[1],"data_offsets":[24,28]}} )",
                  data));
  SafetensorsFile file(path);
  EXPECT_EQ(file.find("f")->loadFloat(0), 1.5f);
  EXPECT_EQ(file.find("d")->loadFloat(0), 2.5f);
  EXPECT_EQ(file.find("h")->loadFloat(0), 1.0f);
  EXPECT_EQ(file.find("b")->loadFloat(0), 3.0f);
  EXPECT_EQ(file.find("l")->loadInteger(0), -5);
  EXPECT_EQ(file.find("i")->loadInteger(0), -6);
  EXPECT_EQ(file.find("none"), nullptr);
}

TEST(Safetensors, WidensEveryValueOfTheNarrowTypes) {
  TemporaryFolder folder;
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = uint16_t(i);
  std::string path = folder.write(
      "x",
      safetensors(
          R"({"h":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]},)"
          R"("b":{"dtype":"BF16","shape":[65536],"data_offsets":[131072,262144]}})",
          bytesOf(all) + bytesOf(all)));
  SafetensorsFile file(path);
  auto widened = [](uint16_t bits, int exponentBits, int mantissaBits) {
    int bias = (1 << (exponentBits - 1)) - 1;
    int exponent = bits >> mantissaBits & ((1 << exponentBits) - 1);
    int mantissa = bits & ((1 << mantissaBits) - 1);
    double value = exponent == 2 * bias + 1 ? (mantissa ? NAN : INFINITY)
                   : exponent
                       ? std::ldexp(1 + std::ldexp(mantissa, -mantissaBits),
                                    exponent - bias)
                       : std::ldexp(mantissa, 1 - bias - mantissaBits);
    return bits & 0x8000 ? -value : value;
  };
  auto same = [](double a, double b) {
    return std::isnan(a) ? std::isnan(b)
                         : a == b && std::signbit(a) == std::signbit(b);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(
        same(file.find("h")->loadFloat(int64_t(i)), widened(all[i], 5, 10)))
        << i;
    EXPECT_TRUE(
        same(file.find("b")->loadFloat(int64_t(i)), widened(all[i], 8, 7)))
        << i;
    // What bf16 buffers hold survives a saved file.
    if (!std::isnan(bf16ToFloat(all[i]))) {
      EXPECT_EQ(floatToBf16(bf16ToFloat(all[i])), all[i]);
    }
  }
}

TEST(Safetensors, RefusesCutFiles) {
  std::string whole = safetensors(goodHeader, std::string(16, 'x'));
  EXPECT_EQ(messageOf(whole), "");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(messageOf(whole.substr(0, length)), "") << length;
}

TEST(Safetensors, RefusesHugeHeaders) {
  std::string bytes = safetensors(goodHeader, std::string(16, 'x'));
  bytes[7] = char(0xff);
  expectContains(messageOf(bytes), "expected a safetensors header inside");
  bytes[7] = 0;
  bytes[4] = 1;
  expectContains(messageOf(bytes), "found a length of 4294967");
}

TEST(Safetensors, RefusesOverlaps) {
  EXPECT_EQ(messageOf(safetensors(
                R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                std::string(12, 'x'))),
            "expected tensors that do not overlap, found a and b");
}

TEST(Safetensors, RefusesNamesTwice) {
  EXPECT_EQ(messageOf(safetensors(
                R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                std::string(8, 'x'))),
            "header: expected each key once, found \"a\" twice");
}

TEST(Safetensors, RefusesWrongEntries) {
  auto entry = [](const std::string &body) {
    return messageOf(safetensors("{\"a\":" + body + "}", std::string(8, 'x')));
  };
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
            "header: a: expected the bytes of shape [3] of F32, found 8 bytes");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})"),
            "header: a.data_offsets: expected a range inside the file's 8 "
            "bytes of data, found [4,12]");
  expectContains(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
                 "expected a range");
  expectContains(entry(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
                 "expected an integer of at least 0, found -2");
  expectContains(entry(R"({"dtype":"F32","shape":[4611686018427387904, 8],)"
                       R"("data_offsets":[0,8]})"),
                 "expected the bytes of shape");
  expectContains(entry(R"({"dtype":"F32","shape":[18446744073709551615],)"
                       R"("data_offsets":[0,8]})"),
                 "expected an integer of at least 0");
  expectContains(entry(R"({"shape":[2],"data_offsets":[0,8]})"),
                 R"(expected a key "dtype", found none)");
  expectContains(entry(R"({"dtype":3,"shape":[2],"data_offsets":[0,8]})"),
                 "expected a string, found 3");
  expectContains(entry("7"), "expected an object, found 7");
  // A type that mt does not know may stand there.
  EXPECT_EQ(entry(R"({"dtype":"F4","shape":[2],"data_offsets":[0,1]})"), "");
}

TEST(Safetensors, RefusesWhatIsNoHeader) {
  expectContains(messageOf(safetensors("[1]", "")), "expected an object");
  expectContains(messageOf(safetensors("{\"a\":", "")), "syntax error at byte");
  expectContains(messageOf(safetensors("\xff\xfe{}", "")), "syntax error");
  // Deep nesting must not exhaust the stack.
  expectContains(messageOf(safetensors(std::string(200000, '['), "")),
                 "syntax error");
}

TEST(Safetensors, RefusesWhatIsNoFile) {
  TemporaryFolder folder;
  EXPECT_EQ(errorOf([&] { SafetensorsFile file(folder.path("none")); }),
            folder.path("none") + ": expected a file that can be read, found: "
                                  "no such file or directory");
  EXPECT_EQ(errorOf([&] { SafetensorsFile file(folder.name()); }),
            folder.name() + ": expected a regular file, found a folder");
}

TEST(Safetensors, WritesWhatItReads) {
  TemporaryFolder folder;
  SafetensorsWriter writer(folder.path("x.safetensors"),
                           {{"z", {2, 1}}, {"a\"\n", {0}}, {"s", {}}});
  writer.write({1, 2});
  writer.write({});
  writer.write({3});
  EXPECT_FALSE(std::filesystem::exists(folder.path("x.safetensors")));
  writer.commit();
  EXPECT_EQ(folder.files(), 1u);
  SafetensorsFile file(folder.path("x.safetensors"));
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.find("z")->shape, (Shape{2, 1}));
  EXPECT_EQ(file.find("z")->loadFloat(1), 2.0f);
  EXPECT_EQ(file.find("s")->loadFloat(0), 3.0f);
  EXPECT_EQ(file.find("a\"\n")->shape, Shape{0});
}

TEST(Safetensors, LeavesNothingWhereWritingFails) {
  TemporaryFolder folder;
  {
    SafetensorsWriter writer(folder.path("x.safetensors"), {{"a", {1}}});
  }
  EXPECT_EQ(folder.files(), 0u);
  std::string path = folder.path("none/x.safetensors");
  EXPECT_EQ(errorOf([&] { SafetensorsWriter writer(path, {}); }),
            path + ": expected a file that can be written, found: no such file "
                   "or directory");
}

} // namespace
