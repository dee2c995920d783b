#include "rendezvous/handshake.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/random.h"
#include "base/sha256.h"
#include "base/wire.h"

namespace tfring {
namespace {

constexpr char kMagic[] = "TFRG";
constexpr size_t kMagicBytes = 4;
constexpr size_t kNonceBytes = 32;
constexpr size_t kOpeningBytes = kMagicBytes + 4 + kNonceBytes;
constexpr size_t kIdentityBytes = 20;
constexpr size_t kProofBytes = Sha256::kBytes;

// An acceptor hangs up on the slow as well as on the wrong. An initiator that took longer
// than this (it was stopped, or the machine is overloaded) can't tell which it was.
constexpr std::chrono::seconds kPrompt{2};

std::string Opening(Purpose purpose, const std::string& nonce) {
  return WireWriter()
      .Raw(kMagic, kMagicBytes)
      .Number(Handshake::kVersion)
      .Number(static_cast<uint8_t>(purpose))
      .Number(uint8_t{0})
      .Raw(nonce.data(), nonce.size())
      .Take();
}

std::string Encode(const Identity& identity) {
  return WireWriter()
      .Number(identity.generation)
      .Number(identity.rank)
      .Number(identity.size)
      .Number(identity.target)
      .Take();
}

Identity DecodeIdentity(const std::string& bytes) {
  WireReader reader(bytes);
  Identity identity;
  identity.generation = reader.Number<int64_t>();
  identity.rank = reader.Number<int32_t>();
  identity.size = reader.Number<int32_t>();
  identity.target = reader.Number<int32_t>();
  return identity;
}

Status Refusal(Verdict verdict, const Identity& identity) {
  const std::string rank = "rank " + std::to_string(identity.rank);
  switch (verdict) {
    case Verdict::kWelcome:
      return Status::Ok();
    case Verdict::kOtherGeneration:
      return {Code::kInvalidArgument,
              "refused: the acceptor is not in generation " + std::to_string(identity.generation)};
    case Verdict::kOtherSize:
      return {Code::kInvalidArgument,
              "refused: the acceptor's job does not have size " + std::to_string(identity.size)};
    case Verdict::kRankTaken:
      return {Code::kInvalidArgument,
              "refused: another process is " + rank + " already; each needs a rank of its own"};
    case Verdict::kBadRank:
      return {Code::kInvalidArgument, "refused: " + rank + " does not connect to rank " +
                                          std::to_string(identity.target) + " there"};
    case Verdict::kCrossed:
      return {Code::kInvalidArgument, "refused: the other end is calling " + rank + " itself"};
  }
  return {Code::kIo, "refused for an unknown reason"};
}

}  // namespace

Result<Handshake> Handshake::Initiate(Purpose purpose, const std::string& secret,
                                      const Identity& identity) {
  auto nonce = RandomBytes(kNonceBytes);
  if (!nonce.ok()) return nonce.status();
  Handshake handshake(purpose, secret);
  handshake.identity_ = identity;
  handshake.output_ = Opening(purpose, nonce.value());
  handshake.transcript_ = handshake.output_;
  handshake.step_ = Step::kChallenge;
  return handshake;
}

Result<Handshake> Handshake::Accept(Purpose purpose, const std::string& secret, Judge judge) {
  Handshake handshake(purpose, secret);
  handshake.judge_ = std::move(judge);
  return handshake;
}

Status Handshake::Advance(int fd) {
  while (true) {
    TFR_RETURN_IF_ERROR(Flush(fd));
    if (wants_to_write()) return Status::Ok();
    if (step_ == Step::kDone) return judge_ ? Refusal(verdict_, identity_) : Status::Ok();
    TFR_RETURN_IF_ERROR(Read(fd));
    if (input_.size() < MessageBytes()) return Status::Ok();
    TFR_RETURN_IF_ERROR(TakeMessage());
    input_.clear();
  }
}

Status Handshake::Flush(int fd) {
  while (!output_.empty()) {
    const ssize_t sent = send(fd, output_.data(), output_.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      output_.erase(0, static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Status::Ok();
    } else if (errno != EINTR) {
      return Closed();
    }
  }
  return Status::Ok();
}

Status Handshake::Read(int fd) {
  while (input_.size() < MessageBytes()) {
    char buffer[kOpeningBytes + kIdentityBytes];
    const ssize_t got = recv(fd, buffer, MessageBytes() - input_.size(), 0);
    if (got > 0) {
      input_.append(buffer, static_cast<size_t>(got));
      const bool opening = step_ == Step::kHello || step_ == Step::kChallenge;
      const std::string magic(kMagic, kMagicBytes);
      if (opening && input_.compare(0, kMagicBytes, magic, 0, input_.size()) != 0) {
        return {Code::kIo, "the other end does not speak the tfring protocol"};
      }
    } else if (got == 0) {
      return Closed();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Status::Ok();
    } else if (errno != EINTR) {
      return Closed();
    }
  }
  return Status::Ok();
}

Status Handshake::Closed() const {
  const bool prompt = std::chrono::steady_clock::now() - begin_ < kPrompt;
  if (step_ == Step::kVerdict && prompt) {
    return {Code::kUnauthenticated,
            "the connection was closed on being shown proof of the job secret: the secrets differ"};
  }
  return {Code::kIo, "the connection was closed during the handshake"};
}

size_t Handshake::MessageBytes() const {
  switch (step_) {
    case Step::kHello:
    case Step::kChallenge:
      return kOpeningBytes;
    case Step::kProof:
      return kIdentityBytes + kProofBytes;
    case Step::kVerdict:
      return 1 + kProofBytes;
    case Step::kDone:
      return 0;
  }
  return 0;
}

Status Handshake::TakeMessage() {
  switch (step_) {
    case Step::kHello: {
      // What it says is judged after the answer, which tells the other end this version.
      auto nonce = RandomBytes(kNonceBytes);
      if (!nonce.ok()) return nonce.status();
      output_ = Opening(purpose_, nonce.value());
      transcript_ = input_ + output_;
      step_ = Step::kProof;
      return Status::Ok();
    }
    case Step::kChallenge:
      return TakeChallenge();
    case Step::kProof:
      return TakeProof();
    case Step::kVerdict:
      return TakeVerdict();
    case Step::kDone:
      return Status::Ok();
  }
  return Status::Ok();
}

Status Handshake::CheckOpening(const std::string& opening) const {
  WireReader reader(opening);
  reader.Raw(kMagicBytes);
  const auto version = reader.Number<uint16_t>();
  const auto purpose = reader.Number<uint8_t>();
  if (version != kVersion) {
    return {Code::kIo, "the other end speaks version " + std::to_string(version) +
                           " of the tfring protocol, expected version " + std::to_string(kVersion)};
  }
  if (purpose != static_cast<uint8_t>(purpose_)) {
    return {Code::kIo, "expected a connection for purpose " +
                           std::to_string(static_cast<int>(purpose_)) + ", received one for " +
                           std::to_string(purpose)};
  }
  return Status::Ok();
}

Status Handshake::TakeChallenge() {
  TFR_RETURN_IF_ERROR(CheckOpening(input_));
  transcript_ += input_;
  const std::string statement = Encode(identity_);
  output_ = statement + Prove("initiator", statement);
  step_ = Step::kVerdict;
  return Status::Ok();
}

Status Handshake::TakeProof() {
  TFR_RETURN_IF_ERROR(CheckOpening(transcript_));
  const std::string statement = input_.substr(0, kIdentityBytes);
  const std::string expected = Prove("initiator", statement);
  if (!EqualInConstantTime(expected.data(), input_.data() + kIdentityBytes, kProofBytes)) {
    return {Code::kUnauthenticated, "a connection without the job secret was refused"};
  }
  identity_ = DecodeIdentity(statement);
  verdict_ = judge_(identity_);
  const std::string verdict(1, static_cast<char>(verdict_));
  output_ = verdict + Prove("acceptor", statement + verdict);
  step_ = Step::kDone;
  return Status::Ok();
}

Status Handshake::TakeVerdict() {
  const std::string verdict = input_.substr(0, 1);
  const std::string expected = Prove("acceptor", Encode(identity_) + verdict);
  if (!EqualInConstantTime(expected.data(), input_.data() + 1, kProofBytes)) {
    return {Code::kUnauthenticated, "the other end does not know the job secret"};
  }
  step_ = Step::kDone;
  verdict_ = static_cast<Verdict>(verdict[0]);
  return Refusal(verdict_, identity_);
}

std::string Handshake::Prove(const char* side, const std::string& statement) const {
  const auto digest = HmacSha256(secret_, std::string(side) + '\0' + transcript_ + statement);
  return std::string(digest.begin(), digest.end());
}

}  // namespace tfring
