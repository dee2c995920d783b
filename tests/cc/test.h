// A small test framework: no dependency to download.
//
//   TEST(ChunksCoverTheBuffer) {
//     EXPECT_EQ(Covered(10, 3), 10u) << "in three chunks";
//     ASSERT_TRUE(link != nullptr);  // leaves the test when false
//   }
//
//   std::vector<Case> Cases();       // Case has operator<< to be named by it
//   TEST_EACH(AllreduceIsRight, Cases()) { Run(param.ranks, param.count); }
//
// Expectations may fail on any thread, until the test ends. A test that runs for longer
// than its time limit aborts the whole run and is named.
#pragma once

#include <functional>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tfring {
namespace test {

struct Case {
  std::string name;
  std::function<void()> run;
};

constexpr double kTimeLimitS = 120;

// Called before main by the macros. `expand` gives the runs of the test: one, or one for
// each parameter.
int Register(const char* name, const char* file, double limit_s,
             std::vector<Case> (*expand)()) noexcept;

// Notes a failure of the running test.
void Fail(const char* file, int line, const std::string& text);

// Whether the running test has failed so far.
bool HasFailed();

// Threads that a test starts note their failures as the test's own.

template <class T, class = void>
struct IsPrintable : std::false_type {};
template <class T>
struct IsPrintable<T, std::void_t<decltype(std::declval<std::ostream&>() << std::declval<T>())>>
    : std::true_type {};

template <class T>
std::string Show(const T& value) {
  std::ostringstream text;
  text.precision(17);
  if constexpr (std::is_enum_v<T>) {
    text << static_cast<long long>(value);
  } else if constexpr (std::is_same_v<T, signed char> || std::is_same_v<T, unsigned char>) {
    text << static_cast<int>(value);
  } else if constexpr (IsPrintable<const T&>::value) {
    text << value;
  } else {
    text << "(" << sizeof(T) << " bytes)";
  }
  return text.str();
}

// "" when the comparison holds, else what was compared.
template <class Compare, class A, class B>
std::string Check(Compare compare, const char* symbol, const char* text_a, const char* text_b,
                  const A& a, const B& b) {
  if (compare(a, b)) return {};
  return std::string("expected ") + text_a + " " + symbol + " " + text_b + ", got " + Show(a) +
         " and " + Show(b);
}

inline std::string CheckTrue(bool holds, const char* text) {
  return holds ? std::string() : std::string("expected ") + text;
}

// For Status and Result<T>.
inline std::string MessageOf(const std::string& text, int code) {
  return text + " (code " + std::to_string(code) + ")";
}
template <class S>
auto StatusOf(const S& value, int) -> decltype(value.status()) {
  return value.status();
}
template <class S>
const S& StatusOf(const S& value, long) {
  return value;
}
template <class S>
std::string CheckOk(const S& value, const char* text) {
  if (value.ok()) return {};
  const auto& status = StatusOf(value, 0);
  return std::string(text) + ": " + MessageOf(status.message(), static_cast<int>(status.code()));
}
template <class S, class C>
std::string CheckCode(const S& value, C code, const char* text) {
  const auto& status = StatusOf(value, 0);
  if (status.code() == code) return {};
  return std::string(text) + ": expected code " + std::to_string(static_cast<int>(code)) +
         ", got " + MessageOf(status.message(), static_cast<int>(status.code()));
}

inline std::string CheckContains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return {};
  return "expected \"" + part + "\" within \"" + text + "\"";
}

// Takes the rest of `EXPECT_...(...) << "more" << text`.
class Message {
 public:
  template <class T>
  Message& operator<<(const T& value) {
    text_ << value;
    return *this;
  }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

class Failure {
 public:
  Failure(const char* file, int line, std::string text)
      : file_(file), line_(line), text_(std::move(text)) {}
  // An assignment binds weaker than <<, and gives void: fit for `return` in a test.
  void operator=(const Message& more) const {
    Fail(file_, line_, more.text().empty() ? text_ : text_ + ": " + more.text());
  }

 private:
  const char* file_;
  int line_;
  std::string text_;
};

template <class Values, class Run>
std::vector<Case> Expand(const std::string& name, const Values& values, Run run) {
  std::vector<Case> cases;
  for (const auto& value : values) {
    using Value = std::decay_t<decltype(value)>;
    const std::string label =
        IsPrintable<const Value&>::value ? Show(value) : std::to_string(cases.size());
    cases.push_back({name + "/" + label, [run, value] { run(value); }});
  }
  return cases;
}

}  // namespace test
}  // namespace tfring

// A test with a time limit of its own, in seconds.
#define TEST_WITHIN(name, limit_s)                                               \
  static void name##Test();                                                      \
  [[maybe_unused]] static const int name##Registered = ::tfring::test::Register( \
      #name, __FILE__, limit_s,                                                  \
      [] { return std::vector<::tfring::test::Case>{{#name, name##Test}}; });    \
  static void name##Test()

#define TEST(name) TEST_WITHIN(name, ::tfring::test::kTimeLimitS)

// Runs once for each of `values`, as `param`. The time limit is that of one run.
#define TEST_EACH(name, ...)                                                     \
  using name##Param = std::decay_t<decltype(*std::begin(__VA_ARGS__))>;          \
  static void name##Test(const name##Param& param);                              \
  [[maybe_unused]] static const int name##Registered = ::tfring::test::Register( \
      #name, __FILE__, ::tfring::test::kTimeLimitS,                              \
      [] { return ::tfring::test::Expand(#name, __VA_ARGS__, name##Test); });    \
  static void name##Test(const name##Param& param)

// A loop of at most one turn: one statement, without an `else` to confuse the caller's `if`.
#define TFR_TEST_CHECK(leave, text)                                                       \
  for (std::string tfr_test_text = (text); !tfr_test_text.empty(); tfr_test_text.clear()) \
  leave::tfring::test::Failure(__FILE__, __LINE__, tfr_test_text) = ::tfring::test::Message()

#define TFR_TEST_COMPARE(leave, symbol, a, b)                                                   \
  TFR_TEST_CHECK(leave,                                                                         \
                 ::tfring::test::Check([](const auto& x, const auto& y) { return x symbol y; }, \
                                       #symbol, #a, #b, a, b))

#define EXPECT_TRUE(condition) \
  TFR_TEST_CHECK(, ::tfring::test::CheckTrue(static_cast<bool>(condition), #condition))
#define EXPECT_FALSE(condition) \
  TFR_TEST_CHECK(, ::tfring::test::CheckTrue(!(condition), "not " #condition))
#define EXPECT_EQ(a, b) TFR_TEST_COMPARE(, ==, a, b)
#define EXPECT_NE(a, b) TFR_TEST_COMPARE(, !=, a, b)
#define EXPECT_LT(a, b) TFR_TEST_COMPARE(, <, a, b)
#define EXPECT_LE(a, b) TFR_TEST_COMPARE(, <=, a, b)
#define EXPECT_GT(a, b) TFR_TEST_COMPARE(, >, a, b)
#define EXPECT_GE(a, b) TFR_TEST_COMPARE(, >=, a, b)
// A Status or Result<T>.
#define EXPECT_OK(value) TFR_TEST_CHECK(, ::tfring::test::CheckOk(value, #value))
#define EXPECT_CODE(value, code) TFR_TEST_CHECK(, ::tfring::test::CheckCode(value, code, #value))
#define EXPECT_CONTAINS(text, part) TFR_TEST_CHECK(, ::tfring::test::CheckContains(text, part))

// These leave the function (of type void) when they fail.
#define ASSERT_TRUE(condition) \
  TFR_TEST_CHECK(return, ::tfring::test::CheckTrue(static_cast<bool>(condition), #condition))
#define ASSERT_FALSE(condition) \
  TFR_TEST_CHECK(return, ::tfring::test::CheckTrue(!(condition), "not " #condition))
#define ASSERT_EQ(a, b) TFR_TEST_COMPARE(return, ==, a, b)
#define ASSERT_NE(a, b) TFR_TEST_COMPARE(return, !=, a, b)
#define ASSERT_LT(a, b) TFR_TEST_COMPARE(return, <, a, b)
#define ASSERT_LE(a, b) TFR_TEST_COMPARE(return, <=, a, b)
#define ASSERT_GT(a, b) TFR_TEST_COMPARE(return, >, a, b)
#define ASSERT_GE(a, b) TFR_TEST_COMPARE(return, >=, a, b)
#define ASSERT_OK(value) TFR_TEST_CHECK(return, ::tfring::test::CheckOk(value, #value))
