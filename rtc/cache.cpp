#include "cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <type_traits>
#include <unordered_map>

#include "text_digest.h"

namespace rondo::rtc {
namespace {

namespace fs = std::filesystem;

// Changed whenever the entry file, the signature tables or host_kernel_abi.h change their meaning.
constexpr std::string_view abi = "rondo binary 1";
constexpr std::size_t digest_length = 32;
// Far above any kernel: a damaged length is not believed.
constexpr std::uint64_t longest_field = std::uint64_t{1} << 30;

class Writer {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_integral_v<T>);
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void bytes(const void* from, std::size_t size) {
    number(std::uint64_t{size});
    text.append(static_cast<const char*>(from), size);
  }
  void string(const std::string& value) { bytes(value.data(), value.size()); }
  std::string text;
};

// Reads what Writer wrote; `ok` turns false for good at the first field that is not there.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  template <class T>
  T number() {
    T value{};
    const std::string_view from = take(sizeof value);
    if (ok) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  std::string_view bytes() {
    const auto size = number<std::uint64_t>();
    return take(size);
  }
  bool at_end() const { return ok && rest_.empty(); }
  bool ok = true;

 private:
  std::string_view take(std::uint64_t size) {
    ok = ok && size <= longest_field && size <= rest_.size();
    if (!ok) return {};
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::string_view rest_;
};

constexpr std::uint8_t no_type = 255;

std::string encode(const Binary& binary) {
  Writer writer;
  writer.bytes(binary.code.data(), binary.code.size());
  writer.string(binary.log);
  writer.number(std::uint64_t{binary.entries.size()});
  for (const Entry& entry : binary.entries) {
    writer.string(entry.expression);
    writer.string(entry.lowered);
    writer.number(std::uint64_t{entry.parameters.size()});
    for (const Parameter& parameter : entry.parameters) {
      writer.number(static_cast<std::uint8_t>(parameter.kind));
      writer.number(static_cast<std::uint8_t>(parameter.is_const));
      writer.number(parameter.type ? static_cast<std::uint8_t>(*parameter.type) : no_type);
      writer.number(parameter.element_size);
      writer.number(parameter.size);
      writer.number(parameter.alignment);
    }
  }
  return std::move(writer.text);
}

Parameter decode_parameter(Reader& reader) {
  Parameter parameter;
  const auto kind = reader.number<std::uint8_t>();
  reader.ok = reader.ok && kind <= static_cast<std::uint8_t>(ParameterKind::structure);
  parameter.kind = static_cast<ParameterKind>(kind);
  parameter.is_const = reader.number<std::uint8_t>() != 0;
  const auto type = reader.number<std::uint8_t>();
  reader.ok = reader.ok && (type == no_type || type < data_type_count);
  if (type != no_type) parameter.type = static_cast<DataType>(type);
  parameter.element_size = reader.number<std::uint32_t>();
  parameter.size = reader.number<std::uint32_t>();
  parameter.alignment = reader.number<std::uint32_t>();
  return parameter;
}

std::optional<Binary> decode(std::string_view text) {
  Reader reader(text);
  Binary binary;
  const std::string_view code = reader.bytes();
  binary.code.assign(reinterpret_cast<const std::byte*>(code.data()),
                     reinterpret_cast<const std::byte*>(code.data() + code.size()));
  binary.log = reader.bytes();
  const auto entries = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; reader.ok && i < entries; ++i) {
    Entry entry;
    entry.expression = reader.bytes();
    entry.lowered = reader.bytes();
    const auto parameters = reader.number<std::uint64_t>();
    for (std::uint64_t p = 0; reader.ok && p < parameters; ++p)
      entry.parameters.push_back(decode_parameter(reader));
    binary.entries.push_back(std::move(entry));
  }
  if (!reader.at_end()) return std::nullopt;
  return binary;
}

// magic and version, key, checksum over key and payload, payload.
std::string seal(const std::string& key, const std::string& payload) {
  return std::string(abi) + key + text_digest({key, payload}) + payload;
}

std::optional<std::string_view> unseal(std::string_view file, const std::string& key) {
  const std::size_t start = abi.size() + 2 * digest_length;
  if (file.size() < start || !file.starts_with(abi) || file.substr(abi.size(), digest_length) != key)
    return std::nullopt;
  const std::string_view payload = file.substr(start);
  if (file.substr(abi.size() + digest_length, digest_length) != text_digest({key, payload}))
    return std::nullopt;
  return payload;
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// nullopt where there is no such file, or it cannot be read.
std::optional<std::string> read_file(const fs::path& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (file.number() < 0 || fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode))
    return std::nullopt;
  if (static_cast<std::uint64_t>(status.st_size) > longest_field) return std::string();
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = read(file.number(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  text.resize(done);
  return text;
}

// 0, or errno.
int write_file(const fs::path& path, std::string_view text) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.number() < 0) return errno;
  while (!text.empty()) {
    const ssize_t count = write(file.number(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::optional<fs::path> default_directory() {
  if (const std::string chosen = variable("RONDO_CACHE_DIR"); !chosen.empty()) return chosen;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return fs::path(cache) / "rondo";
  if (const std::string home = variable("HOME"); !home.empty()) return fs::path(home) / ".cache" / "rondo";
  return std::nullopt;
}

}  // namespace

struct BinaryCache::State {
  fs::path directory;  // empty: in memory alone
  mutable std::mutex mutex;
  std::unordered_map<std::string, Binary> memory;
  std::string problem;
  std::atomic<std::size_t> hits{0}, misses{0};

  fs::path file(const std::string& key) const { return directory / (key + ".rondo"); }

  void keep_in_memory(const std::string& key, const Binary& binary, std::string why) {
    const std::lock_guard lock(mutex);
    memory[key] = binary;
    if (problem.empty()) problem = std::move(why);
  }

  std::optional<Binary> find(const std::string& key) {
    {
      const std::lock_guard lock(mutex);
      if (const auto known = memory.find(key); known != memory.end()) return known->second;
    }
    if (directory.empty()) return std::nullopt;
    const fs::path path = file(key);
    const std::optional<std::string> text = read_file(path);
    if (!text) return std::nullopt;
    const std::optional<std::string_view> payload = unseal(*text, key);
    std::optional<Binary> binary = payload ? decode(*payload) : std::nullopt;
    if (!binary) unlink(path.c_str());
    return binary;
  }
};

BinaryCache::BinaryCache(std::optional<fs::path> directory) : state_(std::make_unique<State>()) {
  if (!directory) directory = default_directory();
  if (!directory) {
    state_->problem =
        "compiled kernels are kept in memory only: none of RONDO_CACHE_DIR, XDG_CACHE_HOME and HOME is set";
    return;
  }
  std::error_code error;
  fs::create_directories(*directory, error);
  const bool usable = !error && access(directory->c_str(), W_OK | X_OK) == 0;
  if (usable) {
    state_->directory = *directory;
    return;
  }
  // What is already there can still be read.
  if (!error && access(directory->c_str(), X_OK) == 0) state_->directory = *directory;
  state_->problem = fmt::format("compiled kernels are kept in memory only: {} cannot be written ({})",
                                directory->string(), error ? error.message() : std::strerror(errno));
}

BinaryCache::~BinaryCache() = default;

std::string BinaryCache::key(const Compiler& compiler, const CompileRequest& request) {
  std::vector<std::string> counts;
  for (const std::size_t count : {request.headers.size(), request.defines.size(), request.entries.size()}) {
    counts.push_back(std::to_string(count));
  }
  std::vector<std::string_view> texts = {abi, compiler.identity(), request.architecture, request.file,
                                         request.source};
  texts.insert(texts.end(), counts.begin(), counts.end());
  for (const Header& header : request.headers) texts.insert(texts.end(), {header.name, header.text});
  for (const auto& [name, value] : request.defines) texts.insert(texts.end(), {name, value});
  texts.insert(texts.end(), request.entries.begin(), request.entries.end());
  return text_digest(texts);
}

std::optional<Binary> BinaryCache::find(const std::string& key) {
  std::optional<Binary> binary = state_->find(key);
  ++(binary ? state_->hits : state_->misses);
  if (binary) binary->from_cache = true;
  return binary;
}

void BinaryCache::store(const std::string& key, const Binary& binary) {
  if (state_->directory.empty()) return state_->keep_in_memory(key, binary, "");
  std::random_device random;
  const fs::path temporary =
      state_->directory / fmt::format(".{}-{}-{:08x}{:08x}", key, getpid(), random(), random());
  int error = write_file(temporary, seal(key, encode(binary)));
  if (error == 0 && rename(temporary.c_str(), state_->file(key).c_str()) == 0) return;
  if (error == 0) error = errno;
  unlink(temporary.c_str());
  state_->keep_in_memory(key, binary,
                         fmt::format("compiled kernels are kept in memory only: {} cannot be written ({})",
                                     state_->directory.string(), std::strerror(error)));
}

std::string BinaryCache::problem() const {
  const std::lock_guard lock(state_->mutex);
  return state_->problem;
}

std::size_t BinaryCache::hits() const noexcept { return state_->hits; }
std::size_t BinaryCache::misses() const noexcept { return state_->misses; }

}  // namespace rondo::rtc
