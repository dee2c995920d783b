// Messages to people: one line each on standard error, "[tfring rank 3] ...".
#pragma once

#include <string>

namespace tfring {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

// For the whole process. Until called: warnings and errors, without a rank.
void ConfigureLog(LogLevel least, int rank);

bool LogEnabled(LogLevel level);

// Line breaks in the message become spaces. Keeps errno.
void Log(LogLevel level, const std::string& message);

}  // namespace tfring
