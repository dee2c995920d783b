#include "core/operation.h"

#include <cstring>
#include <utility>

#include "codec/reduce.h"
#include "collective/choose.h"
#include "core/control_frame.h"

namespace tfring {
namespace {

FrameHeader HeaderOf(const Request& request, uint32_t occurrence) {
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kData);
  header.name_id = NameIdOf(request.process_set, request.name);
  header.occurrence = occurrence;
  header.digest = DigestOf(request);
  return header;
}

size_t BytesOf(const Request& request, const Tensor& tensor) {
  return static_cast<size_t>(ElementsOf(tensor.dims)) * SizeOf(request.dtype);
}

// Bytes of an allgather's tensor for each unit of its first dimension.
size_t RowBytes(const Request& request, const Tensor& tensor) {
  size_t bytes = SizeOf(request.dtype);
  for (size_t i = 1; i < tensor.dims.size(); ++i) bytes *= static_cast<size_t>(tensor.dims[i]);
  return bytes;
}

}  // namespace

Operation::Operation(std::shared_ptr<const ProcessSet> set, Mesh& mesh,
                     const AlgorithmOptions& algorithms)
    : agreement(set->self, set->count()),
      set_(std::move(set)),
      mesh_(mesh),
      algorithms_(algorithms),
      executor_(set_->count(), set_->self) {}

void Operation::Renew(Request&& request, uint32_t occurrence, TimePoint submitted) {
  request_ = std::move(request);
  request_.algorithm = algorithms_.family;
  submitted_ = submitted;
  all_started_ = {};
  header_ = HeaderOf(request_, occurrence);
  buffer_.Clear();
  executor_.Renew(header_, [this](int member) { return &mesh_.link(set_->ranks[member]); });
  times_.reset();
  done_ = gathering_sizes_ = false;
  own_sizes_.clear();
  gathered_sizes_.clear();
  heard.assign(static_cast<size_t>(set_->count()), 0);
  agreement.Renew();
  needs_agreement = queried = false;
  statements.clear();
}

std::function<void(const Status&)> Operation::TakeDone() {
  request_.allocate = nullptr;
  return std::exchange(request_.done, nullptr);
}

std::string Operation::Title() const {
  return std::string(NameOf(request_.kind)) + " \"" + request_.name + "\" on rank " +
         std::to_string(mesh_.rank());
}

int64_t Operation::bytes() const { return static_cast<int64_t>(BytesOf(request_)); }

void Operation::SendControl(FrameType type, int member, const std::string& payload) {
  SendControlFrame(mesh_.link(set_->ranks[member]), type, header_, payload);
}

void Operation::SendControlToAll(FrameType type, const std::string& payload) {
  for (int member = 0; member < set_->count(); ++member) {
    if (member != set_->self) SendControl(type, member, payload);
  }
}

void Operation::Announce() {
  for (int member : agreement.TakeTargets()) SendControl(FrameType::kAnnounce, member);
}

OperationTimes& Operation::Measure() {
  times_ = std::make_unique<OperationTimes>();
  executor_.Measure(times_.get());
  return *times_;
}

// ---- Plans -----------------------------------------------------------------------------

Status Operation::Begin(AllreducePlan& plan) {
  switch (request_.kind) {
    case Kind::kAllreduce:
      BeginAllreduce(plan);
      break;
    case Kind::kBroadcast:
      BeginBroadcast();
      break;
    case Kind::kAllgather:
      BeginAllgather();
      break;
    case Kind::kBarrier:
      BeginBarrier();
      break;
  }
  return Status::Ok();
}

void Operation::Start(Program program, Reducer reducer) {
  Start(std::make_shared<Plan>(std::move(program), set_->count()), std::move(reducer));
}

void Operation::Start(std::shared_ptr<const Plan> plan, Reducer reducer) {
  executor_.Start(std::move(plan), &buffer_, std::move(reducer));
  for (int member = 0; member < set_->count(); ++member) {
    if (member != set_->self && executor_.expects_much(member)) {
      SendControl(FrameType::kReady, member);
    }
  }
}

void Operation::BeginAllreduce(AllreducePlan& plan) {
  buffer_.Reserve(request_.tensors.size());
  for (const Tensor& tensor : request_.tensors) {
    const size_t count = static_cast<size_t>(ElementsOf(tensor.dims));
    const uint8_t* input = tensor.input;
    if (request_.prescale != 1 && count > 0) {
      Scale(request_.dtype, tensor.output, input, request_.prescale, count);
      input = tensor.output;
    }
    buffer_.Append(input, tensor.output, count * SizeOf(request_.dtype));
  }
  double factor = request_.postscale;
  if (request_.reduce_op == ReduceOp::kAverage) factor /= set_->count();
  if (!plan.Fits(set_, request_.dtype, buffer_.size())) {
    const AllreduceShape shape{request_.dtype, buffer_.size(), set_->hosts};
    plan = {set_, request_.dtype, buffer_.size(),
            std::make_shared<Plan>(ChooseAllreduce(shape, set_->self, algorithms_), set_->count())};
  }
  Start(plan.plan, Reducer(request_.dtype, request_.reduce_op, factor));
}

void Operation::BeginBroadcast() {
  const int root = set_->members[request_.root];
  for (const Tensor& tensor : request_.tensors) {
    const size_t bytes = BytesOf(request_, tensor);
    buffer_.Append(tensor.input, tensor.output, bytes);
    if (root == set_->self && bytes > 0 && tensor.output != tensor.input) {
      std::memcpy(tensor.output, tensor.input, bytes);
    }
  }
  Start(ChooseBroadcast(buffer_.size(), set_->self, set_->hosts, root, algorithms_), Reducer());
}

// An allgather has two programs: the first dimensions, then the tensors themselves.
void Operation::BeginAllgather() {
  for (const Tensor& tensor : request_.tensors) {
    own_sizes_.push_back(tensor.dims.empty() ? 1 : tensor.dims[0]);
  }
  const size_t block = own_sizes_.size() * sizeof(int64_t);
  gathered_sizes_.resize(own_sizes_.size() * set_->count());
  uint8_t* const gathered = reinterpret_cast<uint8_t*>(gathered_sizes_.data());
  std::memcpy(gathered + block * set_->self, own_sizes_.data(), block);
  buffer_.Append(gathered, gathered, block * set_->count());
  gathering_sizes_ = true;
  const std::vector<size_t> blocks(set_->count(), block);
  Start(ChooseAllgather(blocks, set_->self, set_->hosts, algorithms_), Reducer());
}

Status Operation::GatherTensors() {
  gathering_sizes_ = false;
  buffer_.Clear();
  const int members = set_->count();
  const size_t tensors = request_.tensors.size();
  std::vector<uint8_t*> outputs(tensors);
  for (size_t i = 0; i < tensors; ++i) {
    std::vector<int64_t> first_dims(members);
    int64_t rows = 0;
    for (int member = 0; member < members; ++member) {
      first_dims[member] = gathered_sizes_[member * tensors + i];
      if (first_dims[member] < 0) return {Code::kInternal, Title() + ": a negative dimension"};
      rows += first_dims[member];
    }
    outputs[i] = static_cast<uint8_t*>(request_.allocate(static_cast<int>(i), first_dims));
    if (outputs[i] == nullptr && rows > 0 && RowBytes(request_, request_.tensors[i]) > 0) {
      return {Code::kInternal, Title() + ": no memory for tensor " + std::to_string(i)};
    }
  }
  // In each output the members' rows stand one after the other; in the flat buffer a
  // member's rows of all tensors do.
  std::vector<size_t> blocks(members);
  for (int member = 0; member < members; ++member) {
    const size_t before = buffer_.size();
    for (size_t i = 0; i < tensors; ++i) {
      const Tensor& tensor = request_.tensors[i];
      const size_t bytes =
          static_cast<size_t>(gathered_sizes_[member * tensors + i]) * RowBytes(request_, tensor);
      const bool own = member == set_->self;
      if (own && bytes > 0) std::memcpy(outputs[i], tensor.input, bytes);
      buffer_.Append(outputs[i], outputs[i], bytes);
      if (bytes > 0) outputs[i] += bytes;
    }
    blocks[member] = buffer_.size() - before;
  }
  Start(ChooseAllgather(blocks, set_->self, set_->hosts, algorithms_), Reducer());
  return Status::Ok();
}

void Operation::BeginBarrier() {
  scratch_.resize(BarrierScratchBytes(set_->count()));
  buffer_.Append(scratch_.data(), scratch_.data(), scratch_.size());
  Start(ChooseBarrier(set_->self, set_->count()), Reducer());
}

// ---- Progress --------------------------------------------------------------------------

Status Operation::Step() {
  executor_.Advance();
  if (executor_.done() && gathering_sizes_) {
    TFR_RETURN_IF_ERROR(GatherTensors());
    executor_.Advance();
  }
  if (all_started_ == TimePoint{} && executor_.all_started()) {
    all_started_ = Clock::now();
    if (times_ != nullptr) times_->NoteStarted();
  }
  done_ = executor_.done();
  return Status::Ok();
}

}  // namespace tfring
