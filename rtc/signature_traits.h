// A kernel's parameters as a constexpr table, from decltype(&kernel). This text follows the user's source, with NVRTC as with a host
// compiler; signature.cpp reads the tables back from the binary. C++17 without includes, because NVRTC has no standard library.
namespace rondo_signature {

struct parameter {
  unsigned char kind, is_const, type, reserved;
  unsigned element_size, size, alignment;
};

template <unsigned count>
struct table {
  unsigned magic, count_of_parameters;
  parameter parameters[count == 0 ? 1 : count];
};

// The numbers are rondo::DataType's.
constexpr unsigned char none = 255;
__device__ constexpr unsigned char integer_code(unsigned long long size, bool is_signed) {
  return static_cast<unsigned char>((size == 1 ? 1 : size == 2 ? 3 : size == 4 ? 5 : size == 8 ? 7 : none - 1) +
                                    (is_signed && size <= 8 ? 0 : 1));
}
template <class T>
struct integer {
  static constexpr bool scalar = true;
  static constexpr unsigned char value = integer_code(sizeof(T), static_cast<T>(-1) < static_cast<T>(0));
};
template <unsigned char code>
struct coded {
  static constexpr bool scalar = true;
  static constexpr unsigned char value = code;
};

template <class T, bool is_enum>
struct enum_or_structure {
  static constexpr bool scalar = false;
  static constexpr unsigned char value = none;
};
template <class T>
struct plain : enum_or_structure<T, __is_enum(T)> {};
template <class T>
struct enum_or_structure<T, true> : plain<__underlying_type(T)> {};
template <> struct enum_or_structure<void, false> : coded<none> {};
template <> struct plain<bool> : coded<0> {};
template <> struct plain<char> : integer<char> {};
template <> struct plain<signed char> : integer<signed char> {};
template <> struct plain<unsigned char> : integer<unsigned char> {};
template <> struct plain<short> : integer<short> {};
template <> struct plain<unsigned short> : integer<unsigned short> {};
template <> struct plain<int> : integer<int> {};
template <> struct plain<unsigned> : integer<unsigned> {};
template <> struct plain<long> : integer<long> {};
template <> struct plain<unsigned long> : integer<unsigned long> {};
template <> struct plain<long long> : integer<long long> {};
template <> struct plain<unsigned long long> : integer<unsigned long long> {};
template <> struct plain<wchar_t> : integer<wchar_t> {};
template <> struct plain<char16_t> : integer<char16_t> {};
template <> struct plain<char32_t> : integer<char32_t> {};
template <> struct plain<float> : coded<11> {};
template <> struct plain<double> : coded<12> {};
#if defined(RONDO_HOST)
template <> struct plain<long double> : coded<none> {};
#endif
// With NVRTC the half types exist where their header was included; hipRTC always has __half, and no header for the other.
#if defined(RONDO_HOST) || defined(__CUDA_FP16_TYPES_EXIST__) || defined(__HIPCC_RTC__)
template <> struct plain<__half> : coded<9> {};
#endif
#if defined(RONDO_HOST) || defined(__CUDA_BF16_TYPES_EXIST__)
template <> struct plain<__nv_bfloat16> : coded<10> {};
#endif
#if defined(RONDO_BF16)  // portable.cuh's
template <> struct plain<RONDO_BF16> : coded<10> {};
#endif

template <class T> struct unqualified { using type = T; static constexpr bool is_const = false; };
template <class T> struct unqualified<const T> { using type = T; static constexpr bool is_const = true; };
template <class T> struct unqualified<volatile T> { using type = T; static constexpr bool is_const = false; };
template <class T> struct unqualified<const volatile T> { using type = T; static constexpr bool is_const = true; };

// 0 for what has no size: void, functions, types that are only declared.
template <class T, class Size = decltype(sizeof(int))>
__device__ constexpr auto element_size(int) -> decltype(sizeof(T) + Size{}) { return sizeof(T); }
template <class T> __device__ constexpr unsigned long long element_size(long) { return 0; }

template <class T, unsigned long long size>
struct pointee : plain<T> {};
template <class T>
struct pointee<T, 0> : coded<none> {};

template <class T>
struct describe {
  static constexpr parameter value = {plain<T>::scalar ? (unsigned char)0 : (unsigned char)2, 0, plain<T>::value, 0, 0,
                                      sizeof(T), alignof(T)};
};
template <class T>
struct describe<T*> {
  using bare = unqualified<T>;
  static constexpr unsigned size = static_cast<unsigned>(element_size<T>(0));
  static constexpr parameter value = {1, bare::is_const, pointee<typename bare::type, size>::value, 0, size,
                                      sizeof(T*), alignof(T*)};
};

template <class T> struct is_reference { static constexpr bool value = false; };
template <class T> struct is_reference<T&> { static constexpr bool value = true; };
template <class T> struct is_reference<T&&> { static constexpr bool value = true; };

// Whether the bytes of a value are the value. Copying by assignment is not asked for with hipRTC: its float4 has an operator= of its own.
template <class T>
struct is_plain {
#if defined(__HIPCC_RTC__)
  static constexpr bool value = __is_trivially_constructible(T, const T&) && __is_trivially_destructible(T);
#else
  static constexpr bool value = __is_trivially_copyable(T);
#endif
};

template <class... P>
struct list {};

// What the entry's own lines assert, so that a wrong entry is one error at that entry.
template <class Function>
struct signature {
  using parameters = list<>;
  static constexpr bool is_kernel = false, few = true, by_value = true;
  static constexpr table<0> value = {};
};
template <class... P>
struct signature<void (*)(P...)> {
  using parameters = list<P...>;
  static constexpr bool is_kernel = true;
  static constexpr bool few = sizeof...(P) <= 64;
  static constexpr bool by_value = ((is_plain<P>::value && !is_reference<P>::value) && ...);
  static constexpr table<sizeof...(P)> value = {0x52534731u, sizeof...(P), {describe<P>::value...}};
};
#if __cpp_noexcept_function_type
template <class... P>
struct signature<void (*)(P...) noexcept> : signature<void (*)(P...)> {};
#endif

}  // namespace rondo_signature
