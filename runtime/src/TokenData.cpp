//===- TokenData.cpp - sequences from text and token files ----------------===//
//
//   document 0     eod  document 1      eod
//   t0 t1 t2 t3 t4 t5 | t6 t7 t8 t9 ...         one stream of tokens
//   ╰─ sequence 0 ─╯╰─ sequence 1 ─╯            input_ids
//      ╰─ labels 0 ──╯╰─ labels 1 ───╯          one token later
//
// Each file is a document. A label is always the next token, also where that is
// the end of a document or the start of the next one. What is left over at the
// end is not used. Every epoch goes through all sequences in an order of its
// own.
//
//===----------------------------------------------------------------------===//

#include "Data.h"

#include "MappedFile.h"
#include "Shuffle.h"
#include "mt/error.h"

#include <algorithm>

using namespace mt::runtime;

namespace {

/// What llm.c writes before the tokens: 256 words, the first of them this
/// number by the width of a token, the third the number of tokens.
constexpr int64_t headerBytes = 1024;
constexpr uint32_t magicOfTwoBytes = 20240520;
constexpr uint32_t magicOfFourBytes = 20240801;

uint32_t loadWord(const char *data) {
  uint32_t word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

/// The tokens of one file.
class Document {
public:
  Document(const std::string &path, int64_t tokenBytes);

  int64_t size() const { return count; }
  int64_t operator[](int64_t index) const {
    const char *at = tokens + index * width;
    if (width == 1)
      return static_cast<unsigned char>(*at);
    if (width == 4)
      return loadWord(at);
    uint16_t token;
    std::memcpy(&token, at, sizeof token);
    return token;
  }
  /// Throws Error for a token of first .. last - 1 that is not below
  /// `vocabulary`.
  void check(int64_t first, int64_t last, int64_t vocabulary) const;

private:
  void skipHeader();

  std::string path;
  MappedFile file;
  int64_t width;
  const char *tokens;
  int64_t count;
};

int64_t widthOf(const std::string &path, int64_t tokenBytes) {
  if (!isTokenFile(path))
    return 1;
  std::string end = path.substr(path.size() - 4);
  return end == ".u16" ? 2 : end == ".u32" ? 4 : tokenBytes;
}

Document::Document(const std::string &path, int64_t tokenBytes)
    : path(path), file(path), width(widthOf(path, tokenBytes)),
      tokens(file.data()) {
  if (file.size() == 0)
    throw Error(path + ": expected " + (width == 1 ? "text" : "token ids") +
                ", found an empty file");
  count = int64_t(file.size()) / width;
  if (width > 1)
    skipHeader();
  else
    return;
  if (int64_t(file.size()) % width != 0)
    throw Error(path + ": expected token ids of " + std::to_string(width) +
                " bytes, found " + std::to_string(file.size()) + " bytes");
}

void Document::skipHeader() {
  if (int64_t(file.size()) < headerBytes)
    return;
  uint32_t magic = loadWord(file.data());
  int64_t headerWidth = magic == magicOfTwoBytes    ? 2
                        : magic == magicOfFourBytes ? 4
                                                    : 0;
  // Tokens may begin like this by chance, but not say how many they are too.
  int64_t said = loadWord(file.data() + 8);
  if (headerWidth == 0 ||
      int64_t(file.size()) != headerBytes + said * headerWidth)
    return;
  width = headerWidth;
  tokens = file.data() + headerBytes;
  count = said;
  if (count == 0)
    throw Error(path + ": expected token ids, found a header alone");
}

void Document::check(int64_t first, int64_t last, int64_t vocabulary) const {
  if (width < 4 && vocabulary >= int64_t(1) << (8 * width))
    return;
  const char *name = width == 1 ? "byte" : "token";
  for (int64_t i = first; i < last; ++i)
    if ((*this)[i] >= vocabulary)
      throw Error(path + ": expected " + (width == 1 ? "bytes" : "token ids") +
                  " from 0 to " + std::to_string(vocabulary - 1) + ", found " +
                  std::to_string((*this)[i]) + " at " + name + " " +
                  std::to_string(i));
}

class TokenData : public DataSource {
public:
  TokenData(const DataOptions &options, const Manifest &manifest);

  void readRow(const std::string &input, int64_t sequence,
               int64_t *elements) const override {
    read(place(sequence) + (input == "labels" ? 1 : 0), manifest.sequence,
         elements);
  }
  int64_t epochSequences() const override {
    return (starts.back() - 1) / manifest.sequence;
  }

private:
  void add(const std::string &path);
  /// The first token of a sequence in the stream.
  int64_t place(int64_t sequence) const {
    int64_t count = epochSequences();
    return shuffled(options.seed, sequence / count, count, sequence % count) *
           manifest.sequence;
  }
  /// Calls `part(document, first, last)` for the pieces of documents that
  /// tokens first .. last - 1 of the stream are, and for ends of documents too:
  /// these are the piece [size, size + 1).
  template <typename PartFn>
  void forEachPart(int64_t first, int64_t last, PartFn part) const;
  void read(int64_t first, int64_t count, int64_t *elements) const;
  void check() const;

  const Manifest &manifest;
  DataOptions options;
  std::vector<Document> documents;
  /// Where each document starts in the stream, and where the last one ends.
  std::vector<int64_t> starts = {0};
};

TokenData::TokenData(const DataOptions &options, const Manifest &manifest)
    : manifest(manifest), options(options) {
  for (const std::string &input : inputNames(manifest))
    if (input != "input_ids" && input != "labels")
      throw Error(options.files[0] + ": expected a .safetensors file with " +
                  input + ", found " +
                  (isTokenFile(options.files[0]) ? "tokens" : "text"));
  for (const std::string &path : options.files)
    add(path);
  if (starts.back() <= manifest.sequence)
    throw Error(options.files[0] + ": expected at least " +
                std::to_string(manifest.sequence + 1) +
                (isTokenFile(options.files[0]) ? " tokens" : " bytes of text") +
                ", found " + std::to_string(starts.back()));
  check();
}

void TokenData::add(const std::string &path) {
  documents.emplace_back(path, options.tokenBytes);
  const Document &document = documents.back();
  // A file that ends its document itself is left alone.
  bool ends = options.endOfDocument < 0 ||
              document[document.size() - 1] == options.endOfDocument;
  starts.push_back(starts.back() + document.size() + (ends ? 0 : 1));
}

template <typename PartFn>
void TokenData::forEachPart(int64_t first, int64_t last, PartFn part) const {
  size_t index = size_t(std::upper_bound(starts.begin(), starts.end(), first) -
                        starts.begin() - 1);
  while (first < last) {
    int64_t end = std::min(last, starts[index + 1]);
    part(documents[index], first - starts[index], end - starts[index]);
    first = end;
    ++index;
  }
}

void TokenData::read(int64_t first, int64_t count, int64_t *elements) const {
  forEachPart(first, first + count,
              [&](const Document &document, int64_t from, int64_t to) {
                for (int64_t i = from; i < to; ++i)
                  *elements++ =
                      i < document.size() ? document[i] : options.endOfDocument;
              });
}

/// Looks at what training will read: all of a small file, the sequences that
/// come up of a large one.
void TokenData::check() const {
  auto checkPart = [&](const Document &document, int64_t from, int64_t to) {
    document.check(from, std::min(to, document.size()), manifest.vocabulary);
  };
  if (options.sequences >= epochSequences())
    return forEachPart(0, starts.back(), checkPart);
  for (int64_t i = 0; i < options.sequences; ++i) {
    int64_t first = place(options.firstSequence + i);
    forEachPart(first, first + manifest.sequence + 1, checkPart);
  }
}

} // namespace

std::unique_ptr<DataSource> mt::runtime::openTokens(const DataOptions &options,
                                                    const Manifest &manifest) {
  return std::make_unique<TokenData>(options, manifest);
}
