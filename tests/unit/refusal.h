// What a call that is refused says.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "rondo/error.h"

namespace rondo {

// Of an Error(bad_argument), which is expected.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_argument);
    return error.what();
  }
  ADD_FAILURE() << "was not refused";
  return "";
}

}  // namespace rondo
