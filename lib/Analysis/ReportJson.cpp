//===- ReportJson.cpp - the report as JSON and as remarks -----------------===//

#include "mt/Analysis/Report.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mt;
namespace json = llvm::json;

std::string mt::toString(Location location) {
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    SmallVector<std::string> parts;
    for (Location part : fused.getLocations())
      parts.push_back(toString(part));
    return llvm::join(parts, ", ");
  }
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName().str();
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return file.getFilename().str() + ":" + std::to_string(file.getLine()) +
           ":" + std::to_string(file.getColumn());
  return "";
}

json::Object mt::toJson(const ReportedCollective &collective) {
  TrafficAttr traffic = collective.traffic;
  CollectiveOpInterface op = collective.op;
  return json::Object{
      {"id", traffic.getId()},
      {"unit", traffic.getUnit().getValue()},
      {"direction", stringifyDirection(traffic.getDirection())},
      {"kind", collective.getKind()},
      {"axes", json::Array(collective.axes)},
      {"group_size", collective.groupSize},
      {"tensors", collective.tensors},
      {"dtype", collective.dtype},
      {"payload_bytes", traffic.getPayloadBytes()},
      {"ring_bytes", traffic.getRingBytes()},
      {"executions", collective.executions},
      {"reason", collective.getReason()},
      {"operation", traffic.getDemandedBy().getValue()},
      {"location", toString(op.getLoc())},
      {"from", getUserLayout(traffic.getFrom())},
      {"to", getUserLayout(traffic.getTo())},
  };
}

static json::Object toJson(const ReportedParameter &parameter) {
  json::Object layouts;
  for (auto [role, layout] : {std::pair("storage", &parameter.storage),
                              std::pair("compute", &parameter.compute),
                              std::pair("gradient", &parameter.gradient),
                              std::pair("state", &parameter.state)})
    if (!layout->empty())
      layouts[role] = *layout;
  json::Object result{
      {"name", parameter.name},
      {"shape", json::Array(parameter.shape)},
      {"layouts", std::move(layouts)},
      {"bytes_per_rank", parameter.bytesPerRank},
      {"gradient_bytes_per_rank", parameter.gradientBytesPerRank},
      {"state_bytes_per_rank", parameter.stateBytesPerRank},
  };
  if (!parameter.whole.empty())
    result["whole"] = parameter.whole;
  return result;
}

static json::Object toJson(const Total &total) {
  return json::Object{{"launches", total.launches},
                      {"payload_bytes", total.payloadBytes},
                      {"ring_bytes", total.ringBytes}};
}

static json::Object toJson(const std::map<std::string, Total> &totals) {
  json::Object result;
  for (const auto &[name, total] : totals)
    result[name] = toJson(total);
  return result;
}

static json::Array toJson(MeshAttr mesh) {
  json::Array axes;
  if (mesh)
    for (const auto &[name, size] : getUserAxes(mesh))
      axes.push_back(json::Object{{"name", name}, {"size", size}});
  return axes;
}

static json::Object
toJson(ArrayRef<std::pair<std::string, int64_t>> bytesByName) {
  json::Object result;
  for (const auto &[name, bytes] : bytesByName)
    result[name] = bytes;
  return result;
}

static json::Object toJson(const LiveMemory &live) {
  json::Object result{{"operation", live.operation},
                      {"unit", live.unit},
                      {"direction", live.direction},
                      {"category", stringifyMemoryCategory(live.category)},
                      {"bytes", live.bytes}};
  if (!live.name.empty())
    result["name"] = live.name;
  return result;
}

json::Object mt::toJson(const MemoryReport &memory) {
  json::Object live;
  for (auto [number, bytes] : llvm::enumerate(memory.live))
    live[stringifyMemoryCategory(MemoryCategory(number))] = bytes;
  json::Array saved, largest;
  for (const auto &[unit, bytes] : memory.savedActivations)
    saved.push_back(json::Object{{"unit", unit}, {"bytes", bytes}});
  for (const LiveMemory &storage : memory.largest)
    largest.push_back(::toJson(storage));
  return json::Object{
      {"peak_bytes", memory.peakBytes},
      {"buffer_bytes", memory.getBufferBytes()},
      {"buffers", ::toJson(memory.buffers)},
      {"arena_bytes", memory.arenaBytes},
      {"live_at_peak", std::move(live)},
      {"lost_bytes", memory.getLostBytes()},
      {"peak", json::Object{{"entry", memory.entry},
                            {"unit", memory.unit},
                            {"direction", memory.direction},
                            {"operation", memory.operation},
                            {"location", toString(memory.location)}}},
      {"saved_at_peak", std::move(saved)},
      {"largest_at_peak", std::move(largest)}};
}

json::Object mt::toJson(const Report &report) {
  json::Array collectives, parameters;
  for (const ReportedCollective &collective : report.collectives)
    collectives.push_back(toJson(collective));
  for (const ReportedParameter &parameter : report.parameters)
    parameters.push_back(::toJson(parameter));
  json::Array saved;
  for (const SavedActivations &unit : report.saved)
    saved.push_back(json::Object{{"unit", unit.unit},
                                 {"tensors", unit.tensors},
                                 {"bytes_per_rank", unit.bytesPerRank}});
  json::Object totals = ::toJson(report.total);
  totals["by_kind"] = ::toJson(report.byKind);
  totals["by_axes"] = ::toJson(report.byAxes);
  totals["by_unit"] = ::toJson(report.byUnit);
  totals["by_direction"] = ::toJson(report.byDirection);
  json::Object result{{"mesh", ::toJson(report.mesh)},
                      {"collectives", std::move(collectives)},
                      {"totals", std::move(totals)},
                      {"parameters", std::move(parameters)},
                      {"saved_activations", std::move(saved)}};
  if (report.parameterTraffic)
    result["parameter_traffic"] = toJson(*report.parameterTraffic);
  if (report.time)
    result["time"] =
        json::Object{{"compute_seconds", report.time->compute},
                     {"communication_seconds", report.time->communication},
                     {"exposed_seconds", report.time->exposed}};
  if (report.memory)
    result["memory"] = toJson(*report.memory);
  return result;
}

void mt::emitRemarks(const Report &report) {
  for (const ReportedCollective &collective : report.collectives) {
    TrafficAttr traffic = collective.traffic;
    CollectiveOpInterface op = collective.op;
    op->emitRemark() << collective.getKind() << " over {"
                     << llvm::join(collective.axes, ", ") << "} of "
                     << collective.groupSize << " ranks, "
                     << collective.getReason() << " for "
                     << traffic.getDemandedBy().getValue() << " in "
                     << traffic.getUnit().getValue() << " "
                     << stringifyDirection(traffic.getDirection())
                     << ": each sends " << traffic.getRingBytes()
                     << " bytes of " << traffic.getPayloadBytes() << ", "
                     << getUserLayout(traffic.getFrom()) << " -> "
                     << getUserLayout(traffic.getTo());
  }
}
