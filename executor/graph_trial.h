// Whether a device's graphs do what they should, found out by running some. Drivers are known to report success for updates that
// later launches do not see (ROCm/clr#42), to share the arguments of a kernel's nodes (ROCm/hip#2550), and to refuse functions of
// modules in nodes (ROCm 5.4): results are looked at, not return codes.
#pragma once

#include <string>

#include "driver.h"

namespace rondo {

namespace rtc {
class Compiler;
class BinaryCache;
}  // namespace rtc

// Empty: graphs work. Else what went wrong, as a clause: "an update of a node reports success and …". Throws Error where not even
// a kernel can be compiled or memory allocated. `cache` may be null. Takes some launches of one thread.
std::string try_graphs(Driver& driver, rtc::Compiler& compiler, rtc::BinaryCache* cache);

}  // namespace rondo
