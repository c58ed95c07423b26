#include <cotangent/nn/data/image.h>

#include <algorithm>
#include <cctype>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#if COTANGENT_WITH_PNG
#include <png.h>
#endif
#if COTANGENT_WITH_JPEG
#include <jerror.h>
#include <jpeglib.h>
#endif

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/nn/io/source_internal.h>

namespace ct::data {
namespace {

constexpr char kOp[] = "read_image";
constexpr std::uint64_t kMaxPoints = std::uint64_t{1} << 27;
constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 30;

using Bytes = std::span<const std::byte>;

template <class... Args>
[[noreturn]] void fail(const std::string& name, const Args&... args) {
  ct::detail::fail<IoError>(kOp, printable_path(name), ": ", args...);
}

// Before memory is asked for: a header of some bytes may claim any size. `ratio` is how many points a byte can hold.
[[maybe_unused]] void check_size(const std::string& name, Bytes bytes, std::uint64_t width,
                                 std::uint64_t height, std::uint64_t ratio) {
  if (width == 0 || height == 0 || height > kMaxPoints / width)
    fail(name, "announces ", width, " x ", height, " points; a picture has up to ", kMaxPoints);
  if (width * height > bytes.size() * ratio)
    fail(name, "announces ", width, " x ", height, " points, more than its ", bytes.size(),
         " bytes can hold; it is truncated or damaged");
}

// Points of `stride` bytes, red, green and blue first.
[[maybe_unused]] Tensor planes(const std::uint8_t* from, std::int64_t height, std::int64_t width,
                               std::size_t stride, Color color) {
  const std::int64_t points = height * width;
  const Tensor image = Tensor::allocate({color == Color::rgb ? 3 : 1, height, width}, DType::u8, cpu);
  auto* to = image.data<std::uint8_t>();
  for (std::int64_t i = 0; i < points; ++i, from += stride) {
    if (color == Color::rgb) {
      for (std::int64_t c = 0; c < 3; ++c) to[c * points + i] = from[c];
    } else {
      to[i] =
          static_cast<std::uint8_t>((from[0] * 19595u + from[1] * 38470u + from[2] * 7471u + 0x8000u) >> 16);
    }
  }
  return image;
}

#if COTANGENT_WITH_PNG
// Ignores colour profiles, by which libpng would change the values. They are taken as they stand, as Pillow takes them.
std::vector<std::byte> without_profiles(Bytes bytes) {
  constexpr std::size_t kSignature = 8,
                        kAround = 12;  // bytes of a chunk beside its data: length, name, checksum
  std::vector<std::byte> kept(bytes.begin(), bytes.begin() + kSignature);
  for (bytes = bytes.subspan(kSignature); !bytes.empty();) {
    std::size_t size = bytes.size();  // of what is no chunk: libpng says what is wrong with it
    bool profile = false;
    if (bytes.size() >= kAround) {
      std::size_t length = 0;
      for (std::size_t i = 0; i < 4; ++i) length = length << 8 | std::to_integer<std::size_t>(bytes[i]);
      size = std::min(size, length + kAround);
      const std::string_view chunk(reinterpret_cast<const char*>(bytes.data()) + 4, 4);
      profile = chunk == "gAMA" || chunk == "cHRM" || chunk == "iCCP" || chunk == "sRGB" || chunk == "cICP";
    }
    if (!profile) kept.insert(kept.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    bytes = bytes.subspan(size);
  }
  return kept;
}

Tensor decode_png(Bytes whole, Color color, const std::string& name) {
  const std::vector<std::byte> bytes = without_profiles(whole);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()))
    fail(name, "is no PNG that can be read (", printable(image.message), "); fetch it again");
  struct Release {
    png_image& image;
    ~Release() { png_image_free(&image); }
  } const release{image};
  // Deflate makes data at most 1032 times smaller, and a byte of it holds up to 8 points.
  check_size(name, bytes, image.width, image.height, 8 * 1032);
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  image.format = PNG_FORMAT_RGBA;  // else libpng would blend with a background
  const std::int64_t height = image.height, width = image.width;
  const Tensor points = Tensor::allocate({height, width, 4}, DType::u8, cpu);
  if (!png_image_finish_read(&image, nullptr, points.raw_data(), 0, nullptr))
    fail(name, "can't be decoded (", printable(image.message),
         "); it is truncated or damaged: fetch it again");
  return planes(points.data<std::uint8_t>(), height, width, 4, color);
}
#endif

#if COTANGENT_WITH_JPEG
// libjpeg reports errors by a function that must not return. It jumps back here, over C code alone: between setjmp()
// and the end of run() nothing is made that has a destructor.
struct Jpeg {
  // Progressive pictures have some ten. Each goes over the whole picture, and may be of a few bytes.
  static constexpr int kMostScans = 100;

  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = {};

  static void on_error(j_common_ptr info) {
    auto* self = static_cast<Jpeg*>(info->client_data);
    (*info->err->format_message)(info, self->message);
    std::longjmp(self->back, 1);
  }
  // Other warnings are about bytes between the parts of a file; these two mean that the rest would be made up.
  static void on_message(j_common_ptr info, int level) {
    const int code = info->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) on_error(info);
  }

  static void on_progress(j_common_ptr info) {
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
    auto* self = static_cast<Jpeg*>(info->client_data);
    std::snprintf(self->message, sizeof(self->message), "more than %d scans", kMostScans);
    std::longjmp(self->back, 1);
  }

  Jpeg() {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = on_error;
    errors.emit_message = on_message;
    info.client_data = this;
  }
  ~Jpeg() { jpeg_destroy_decompress(&info); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  bool start(Bytes bytes) {
    if (setjmp(back)) return false;
    jpeg_create_decompress(&info);
    info.client_data = this;
    progress.progress_monitor = on_progress;
    info.progress = &progress;
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()),
                 static_cast<unsigned long>(bytes.size()));
    jpeg_read_header(&info, TRUE);
    info.out_color_space = JCS_RGB;
    return true;
  }
  bool run(std::uint8_t* points) {
    if (setjmp(back)) return false;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = points + std::size_t{info.output_scanline} * info.output_width * 3;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    return true;
  }
};

Tensor decode_jpeg(Bytes bytes, Color color, const std::string& name) {
  Jpeg jpeg;
  if (!jpeg.start(bytes))
    fail(name, "is no JPEG that can be read (", printable(jpeg.message), "); fetch it again");
  // At least one bit for a block of 8 x 8 points, of which the arithmetic coder may make less.
  check_size(name, bytes, jpeg.info.image_width, jpeg.info.image_height, 8 * 1032);
  const std::int64_t height = jpeg.info.image_height, width = jpeg.info.image_width;
  const Tensor points = Tensor::allocate({height, width, 3}, DType::u8, cpu);
  if (!jpeg.run(points.data<std::uint8_t>()))
    fail(name, "can't be decoded (", printable(jpeg.message),
         "); it is truncated, damaged or of inks (CMYK): fetch or "
         "convert it");
  return planes(points.data<std::uint8_t>(), height, width, 3, color);
}
#endif

}  // namespace

bool has_png() { return COTANGENT_WITH_PNG; }
bool has_jpeg() { return COTANGENT_WITH_JPEG; }

Tensor decode_image(Bytes bytes, Color color, std::string name) {
  const auto begins = [&](const char* magic, std::size_t size) {
    return bytes.size() >= size && std::memcmp(bytes.data(), magic, size) == 0;
  };
  constexpr char kAbsent[] = ", and this build reads none: ";
  if (begins("\x89PNG\r\n\x1a\n", 8)) {
#if COTANGENT_WITH_PNG
    return decode_png(bytes, color, name);
#else
    fail(name, "is a PNG file", kAbsent, "install libpng (libpng-dev), and configure and build again");
#endif
  }
  if (begins("\xff\xd8\xff", 3)) {
#if COTANGENT_WITH_JPEG
    return decode_jpeg(bytes, color, name);
#else
    fail(name, "is a JPEG file", kAbsent, "install libjpeg (libjpeg-dev), and configure and build again");
#endif
  }
  (void)kAbsent;
  fail(name, "begins neither as a PNG nor as a JPEG file; convert it to one of these");
}

Tensor read_image(const std::string& path, Color color) {
  const std::string bytes = io::read_text_file(kOp, path, kMaxFile);
  return decode_image(std::as_bytes(std::span(bytes)), color, path);
}

ImageFolder::ImageFolder(const std::string& root, Color color) : color_(color) {
  namespace fs = std::filesystem;
  constexpr char op[] = "ImageFolder";
  std::error_code error;
  const auto check = [&](const fs::path& path) {
    CT_CHECK(!error, IoError, op, "can't read the folder ", printable_path(path.string()), ": ",
             error.message(), "; give the folder that holds one folder for each class");
  };
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error))
    if (it->is_directory(error) && !error) classes_.push_back(it->path().filename().string());
  check(root);
  std::ranges::sort(classes_);
  CT_CHECK(!classes_.empty(), IoError, op, "there are no folders in ", printable_path(root),
           "; give the folder that holds one folder for each class");
  const auto is_picture = [](const fs::path& path) {
    std::string end = path.extension().string();
    for (char& c : end) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return end == ".png" || end == ".jpg" || end == ".jpeg";
  };
  for (std::size_t label = 0; label < classes_.size(); ++label) {
    const fs::path folder = fs::path(root) / classes_[label];
    const std::size_t before = files_.size();
    for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      if (is_picture(it->path()) && it->is_regular_file(error) && !error)
        files_.emplace_back(it->path().string(), static_cast<std::int64_t>(label));
    check(folder);
    CT_CHECK(files_.size() > before, IoError, op, "there is no picture (.png, .jpg, .jpeg) in ",
             printable_path(folder.string()), "; take empty folders away");
    std::sort(files_.begin() + static_cast<std::ptrdiff_t>(before), files_.end());
  }
}

std::pair<Tensor, Tensor> ImageFolder::get(std::int64_t i) const {
  CT_CHECK(i >= 0 && i < size(), IndexError, "ImageFolder", "index ", i,
           " is out of range; it must lie in [0, ", size(), ')');
  const auto& [path, label] = files_[static_cast<std::size_t>(i)];
  const Tensor image = read_image(path, color_);
  const Tensor scaled = Tensor::allocate(image.shape(), DType::f32, cpu),
               number = Tensor::allocate({}, DType::i64, cpu);
  const auto* from = image.data<std::uint8_t>();
  std::transform(from, from + image.numel(), scaled.data<float>(),
                 [](std::uint8_t value) { return static_cast<float>(value) / 255.0f; });
  *number.data<std::int64_t>() = label;
  return {scaled, number};
}

}  // namespace ct::data
