//===- SaveWhole.cpp - whole tensors from what ranks hold -----------------===//

#include "Checkpoint.h"

#include "ShardedWriter.h"

using namespace mt::runtime;

namespace {

/// The tensors of the checkpoint in the parameters' order, each with the
/// buffers that hold parts of it.
struct WholeTensor {
  SafetensorsWriter::Entry entry;
  std::vector<int64_t> buffers;
};

std::vector<WholeTensor> wholeTensors(const Manifest &manifest, Role role) {
  std::vector<WholeTensor> result;
  std::map<std::string, size_t> position;
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    const Buffer &buffer = manifest.buffers[i];
    if (buffer.role != role)
      continue;
    std::string name = tensorName(manifest, buffer);
    auto [it, isNew] = position.emplace(name, result.size());
    if (isNew)
      result.push_back(
          {{name, manifest.parameters[buffer.parameter].checkpoint.shape}, {}});
    result[it->second].buffers.push_back(int64_t(i));
    result[it->second].entry.isDouble |= buffer.dtype == MT_F64;
  }
  return result;
}

/// Adds the block of a buffer that `rank` holds to its place in the whole
/// tensor. Adding serves both cases: blocks that ranks share (partial) are
/// summands, all others land on zeros.
void addBlock(const Manifest &manifest, const Buffer &buffer, int64_t rank,
              const void *data, std::vector<double> &whole) {
  const CheckpointMap &map = manifest.parameters[buffer.parameter].checkpoint;
  Box block = clip(localBox(manifest.mesh, buffer.sharding, buffer.shape, rank),
                   map.unpadded());
  Shape strides = map.strides();
  int64_t first = map.firstElement();
  for (size_t d = 0; d < strides.size(); ++d)
    first += block.offsets[d] * strides[d];
  forEachRow(block.sizes, strides, rowMajorStrides(buffer.localShape),
             [&](int64_t to, int64_t from, int64_t count, int64_t toStep,
                 int64_t step) {
               for (int64_t i = 0; i < count; ++i)
                 whole[size_t(first + to + i * toStep)] +=
                     loadFloat(buffer.dtype, data, from + i * step);
             });
}

} // namespace

void mt::runtime::saveWhole(Communicator &communicator,
                            const Manifest &manifest, const SaveFile &file,
                            const BufferFn &memory) {
  std::vector<WholeTensor> tensors;
  for (Role role : file.roles)
    for (WholeTensor &tensor : wholeTensors(manifest, role))
      tensors.push_back(std::move(tensor));
  std::string place = "writing " + file.name;
  bool writes = communicator.rank() == 0;
  std::unique_ptr<ShardedWriter> writer;
  if (writes) {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const WholeTensor &tensor : tensors)
      entries.push_back(tensor.entry);
    writer = std::make_unique<ShardedWriter>(file.path, std::move(entries),
                                             file.maxShardBytes);
  }
  for (const WholeTensor &tensor : tensors) {
    // Adding to -0 changes no bit, of no value.
    std::vector<double> whole(
        writes ? size_t(elementCount(tensor.entry.shape)) : 0, -0.0);
    for (int64_t index : tensor.buffers) {
      const Buffer &buffer = manifest.buffers[index];
      communicator.collect(
          place.c_str(), index, memory(index), buffer.localBytes(),
          [&](int64_t rank, const void *data) {
            if (speaksForBlock(manifest.mesh, buffer.sharding, rank))
              addBlock(manifest, buffer, rank, data, whole);
          });
    }
    for (double &element : whole)
      element /= file.divisor;
    if (writes)
      writer->write(whole);
  }
  if (writes)
    writer->commit();
}
