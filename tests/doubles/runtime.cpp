#include "runtime.h"

#include "host/driver.h"

namespace rondo::doubles {

Driver& host() {
  static Driver& driver = *host::make_driver().release();
  return driver;
}

}  // namespace rondo::doubles
