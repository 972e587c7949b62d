// Buffers of a session as the command line sees them: from and to .npy files, and in short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "rondo/session.h"

namespace rondo::cli {

// "f32 [2, 3]".
std::string describe(DataType type, const std::vector<std::size_t>& shape);
std::string describe_bytes(std::size_t bytes);  // "1.5 MiB"

// Throws session.error(status) unless it is ok.
void require(Session& session, const Status& status);

// Fills the buffer from an .npy file, whose type and shape must be the buffer's; Error(bad_argument) says
// both.
void write_from_npy(Session& session, const std::string& buffer, const std::string& file);
void read_to_npy(Session& session, const std::string& buffer, const std::string& file);

// All bytes of a buffer, once all launches so far are done.
std::vector<std::byte> read_bytes(Session& session, BufferHandle buffer);

// Uniform values as a schedule's random fill has them: floats in [-1, 1), integers in 0 … 15, bools 0 or 1.
std::vector<std::byte> random_elements(const BufferInfo& buffer, std::mt19937_64& generator);

// What a newcomer would like to know about a buffer of a plain type. NaNs are counted and left out of the
// rest.
struct Digest {
  std::size_t elements = 0, nans = 0;
  double smallest = 0, largest = 0, mean = 0, norm = 0;
  std::vector<double> first;  // up to 4 values
};
Digest digest(const BufferInfo& buffer, const std::vector<std::byte>& bytes);

}  // namespace rondo::cli
