// How two processes of a job meet on a fresh connection, to the store or between ranks:
// each proves, by HMAC-SHA-256 over nonces of both, that it knows the job's secret.
//
//   initiator -> acceptor   hello:      "TFRG", version, purpose, nonce           40 bytes
//   acceptor  -> initiator  challenge:  the same with its own nonce               40 bytes
//   initiator -> acceptor   identity, HMAC("initiator", hello, challenge, identity)   52
//   acceptor  -> initiator  verdict, HMAC("acceptor", ..., verdict)               33 bytes
//
// The initiator proves itself first: a stranger learns nothing but two random nonces, and
// who fails gets a closed connection without a word. Every message has a fixed length, so
// nothing of what follows the handshake is read by it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace tfring {

enum class Purpose : uint8_t { kStore = 1, kLink = 2 };

// Who the initiator is and whom he wants; all zero for the store.
struct Identity {
  int64_t generation = 0;
  int32_t rank = 0;
  int32_t size = 0;
  int32_t target = 0;
};

// What the acceptor says to an initiator that has proved itself.
enum class Verdict : uint8_t {
  kWelcome = 0,
  kOtherGeneration = 1,
  kOtherSize = 2,
  kRankTaken = 3,
  kBadRank = 4,
  kCrossed = 5,  // the acceptor calls the initiator at the same time, and its call goes first
};

class Handshake {
 public:
  static constexpr uint16_t kVersion = 2;

  using Judge = std::function<Verdict(const Identity&)>;

  static Result<Handshake> Initiate(Purpose purpose, const std::string& secret,
                                    const Identity& identity);
  static Result<Handshake> Accept(Purpose purpose, const std::string& secret, Judge judge);

  // Reads and writes what the non-blocking socket takes now. Errors:
  //   kUnauthenticated  the secrets differ
  //   kInvalidArgument  a verdict other than kWelcome
  //   kIo               closed, reset, or something that is not tfring or not this version
  Status Advance(int fd);

  bool done() const { return step_ == Step::kDone && output_.empty(); }
  bool wants_to_write() const { return !output_.empty(); }
  // An acceptor has heard nothing from the other end that makes sense.
  bool heard_nothing() const { return step_ == Step::kHello; }
  // The initiator's, once done; his own word until he has proved himself.
  const Identity& identity() const { return identity_; }
  // What the acceptor said, or this acceptor will; kWelcome before.
  Verdict verdict() const { return verdict_; }

 private:
  enum class Step { kHello, kChallenge, kProof, kVerdict, kDone };

  Handshake(Purpose purpose, const std::string& secret) : purpose_(purpose), secret_(secret) {}

  Status Flush(int fd);
  Status Read(int fd);
  Status Closed() const;
  size_t MessageBytes() const;
  Status TakeMessage();
  Status CheckOpening(const std::string& opening) const;
  Status TakeChallenge();
  Status TakeProof();
  Status TakeVerdict();
  std::string Prove(const char* side, const std::string& statement) const;

  Purpose purpose_;
  std::string secret_;
  Judge judge_;
  Step step_ = Step::kHello;
  std::string transcript_;  // hello, challenge
  std::string input_;       // of the message under way
  std::string output_;
  Identity identity_;
  Verdict verdict_ = Verdict::kWelcome;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace tfring
