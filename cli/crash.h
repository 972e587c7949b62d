// A kernel that runs on the host device is code in this process: what it does wrong arrives as a signal.
#pragma once

namespace rondo::cli {

// From now on a memory fault ends the process with one clear line and the exit code of a failure at run time, 1. What a session
// holds is lost with the process; the cache is safe, as its files are published whole.
void report_crashes();

}  // namespace rondo::cli
