#include "rondo/role.h"

namespace rondo {

const char* name(Role role) noexcept {
  switch (role) {
    case Role::input:
      return "input";
    case Role::output:
      return "output";
    case Role::weight:
      return "weight";
    case Role::state:
      return "state";
    case Role::temporary:
      return "temporary";
  }
  return "";
}

}  // namespace rondo
