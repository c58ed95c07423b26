#include <cotangent/nn/data/idx.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include <unistd.h>

#include <cotangent/nn/data/dataset.h>
#include <cotangent/nn/data/idx_internal.h>

// IDX: two zero bytes, a byte for the element type, a byte for the number of axes, the sizes, the elements,
// all of it big-endian (Yann LeCun's page of the MNIST data).

namespace ct::data {
namespace {

constexpr char kOp[] = "read_idx";
constexpr char kHelp[] = "; the download is incomplete or of another kind: fetch it again";
constexpr std::uint64_t kMaxRatio = 1040;  // deflate makes data at most 1032 times smaller

// The bytes of a source in order, unpacked where it is packed.
class ByteReader {
 public:
  explicit ByteReader(const io::ByteSource& source) : source_(source) {
    std::uint8_t magic[2] = {0, 0};
    if (source.size() >= 2) source.read(0, magic, 2);
    packed_ = magic[0] == 0x1f && magic[1] == 0x8b;
    if (packed_) inflater_.emplace(kOp, source, 0, source.size(), /*gzip=*/true);
  }
  /// Fewer than `bytes` only at the end.
  std::size_t read(void* to, std::size_t bytes) {
    if (inflater_) return inflater_->read(to, bytes);
    bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, source_.size() - at_));
    source_.read(at_, to, bytes);
    at_ += bytes;
    return bytes;
  }
  void expect(void* to, std::size_t bytes) {
    source_.check(read(to, bytes) == bytes, kOp, "is truncated", kHelp);
  }
  /// The most that can be left.
  std::uint64_t limit() const { return packed_ ? source_.size() * kMaxRatio : source_.size() - at_; }

 private:
  const io::ByteSource& source_;
  std::optional<io::Inflater> inflater_;
  std::uint64_t at_ = 0;
  bool packed_ = false;
};

struct Element {
  std::uint8_t code;
  std::size_t bytes;
  DType dtype;
};
constexpr Element kElements[] = {{0x08, 1, DType::u8},  {0x09, 1, DType::i32}, {0x0B, 2, DType::i32},
                                 {0x0C, 4, DType::i32}, {0x0D, 4, DType::f32}, {0x0E, 8, DType::f64}};

std::uint32_t big_endian(const std::uint8_t* b) {
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

}  // namespace

Tensor read_idx(const io::ByteSource& source) {
  ByteReader reader(source);
  std::uint8_t start[4];
  reader.expect(start, sizeof(start));
  const auto element = std::ranges::find(kElements, start[2], &Element::code);
  source.check(start[0] == 0 && start[1] == 0 && element != std::end(kElements), kOp,
               "begins with the bytes ", int{start[0]}, ' ', int{start[1]}, ' ', int{start[2]}, ' ',
               int{start[3]}, ", which no IDX file does", kHelp);
  source.check(start[3] <= kMaxRank, kOp, "has ", int{start[3]}, " axes; up to 8 are supported");
  Shape shape;
  std::uint64_t bytes = element->bytes;
  bool fits = true, is_empty = false;
  for (int i = 0; i < start[3]; ++i) {
    std::uint8_t size[4];
    reader.expect(size, sizeof(size));
    shape.push_back(big_endian(size));
    is_empty = is_empty || shape.back() == 0;
    fits = fits && !__builtin_mul_overflow(
                       bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(shape.back(), 1)), &bytes);
  }
  // Before any memory is asked for: a header of 20 bytes may claim anything.
  source.check(fits && bytes <= std::uint64_t{INT64_MAX} && (is_empty || bytes <= reader.limit()), kOp,
               "announces elements of shape ", shape, ", more than the file can hold: it is truncated",
               kHelp);

  Tensor result = Tensor::allocate(shape, element->dtype, cpu);
  const std::size_t count = static_cast<std::size_t>(result.numel());
  if (element->bytes == size_of(element->dtype)) {
    reader.expect(result.raw_data(), count * element->bytes);
    auto* data = static_cast<std::uint8_t*>(result.raw_data());
    if (element->bytes > 1 && std::endian::native == std::endian::little)
      for (std::size_t i = 0; i < count; ++i, data += element->bytes)
        std::reverse(data, data + element->bytes);
  } else {
    const std::size_t raw_bytes = count * element->bytes;
    const Tensor room = Tensor::allocate({static_cast<std::int64_t>(raw_bytes)}, DType::u8, cpu);
    const auto* raw = room.data<std::uint8_t>();
    reader.expect(room.raw_data(), raw_bytes);
    auto* out = result.data<std::int32_t>();
    for (std::size_t i = 0; i < count; ++i)
      out[i] = element->bytes == 1 ? static_cast<std::int8_t>(raw[i])
                                   : static_cast<std::int16_t>(raw[2 * i] << 8 | raw[2 * i + 1]);
  }
  std::uint8_t more;
  source.check(reader.read(&more, 1) == 0, kOp, "goes on after the ", result.numel(),
               " elements that it announces", kHelp);
  return result;
}

Tensor read_idx(const std::string& path) { return read_idx(*io::open_file(kOp, path)); }

ImageDataset::ImageDataset(Tensor images, Tensor labels, IdxOptions options)
    : images_(std::move(images)), labels_(std::move(labels)) {
  constexpr char op[] = "ImageDataset";
  CT_CHECK(images_.dtype() == DType::u8 && labels_.dtype() == DType::i64, DTypeError, op, "got images ",
           describe(images_), " and labels ", describe(labels_), "; images are u8 and labels i64");
  CT_CHECK(images_.is_cpu() && labels_.is_cpu(), DeviceError, op, "got images ", describe(images_),
           " and labels ", describe(labels_), "; both live on the CPU, the loader moves the batches");
  CT_CHECK((images_.dim() == 3 || images_.dim() == 4) && labels_.dim() == 1 &&
               labels_.numel() == images_.shape()[0],
           ShapeError, op, "got images ", describe(images_), " and labels ", describe(labels_),
           "; images are [n, height, width] or [n, channels, height, width], labels [n]");
  CT_CHECK(std::isfinite(options.mean), ValueError, op, "mean is ", options.mean, "; it must be finite");
  CT_CHECK(options.std > 0 && std::isfinite(options.std), ValueError, op, "std is ", options.std,
           "; it must be finite and > 0");
  images_ = images_.contiguous();
  labels_ = labels_.contiguous();
  if (images_.dim() == 3) {
    Shape shape = images_.shape();
    shape.insert(1, 1);
    images_ = Tensor::from_storage(images_.impl()->storage, shape, contiguous_strides(shape),
                                   images_.storage_offset(), DType::u8);
  }
  mean_ = static_cast<float>(options.mean);
  std_ = static_cast<float>(options.std);
}

std::pair<Tensor, Tensor> ImageDataset::get_batch(std::span<const std::int64_t> indices) const {
  Shape shape = images_.shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  Tensor labels = gather_rows(labels_, indices);  // checks the indices
  Tensor batch = allocate_batch(shape, DType::f32);
  const std::size_t pixels = size() > 0 ? static_cast<std::size_t>(images_.numel() / size()) : 0;
  const float mean = mean_, std = std_;
  const bool plain = mean == 0 && std == 1;
  float* out = batch.data<float>();
  for (std::int64_t i : indices) {
    const std::uint8_t* in = images_.data<std::uint8_t>() + static_cast<std::size_t>(i) * pixels;
    for (std::size_t p = 0; p < pixels; ++p) out[p] = static_cast<float>(in[p]) / 255.0f;
    if (!plain)
      for (std::size_t p = 0; p < pixels; ++p) out[p] = (out[p] - mean) / std;
    out += pixels;
  }
  return {std::move(batch), std::move(labels)};
}

std::pair<Tensor, Tensor> ImageDataset::get(std::int64_t i) const {
  auto [images, labels] = get_batch({&i, 1});
  return {images.select(0, 0), labels.select(0, 0)};
}

std::int64_t ImageDataset::classes() const {
  const std::int64_t* label = labels_.data<std::int64_t>();
  return labels_.numel() == 0 ? 0 : *std::max_element(label, label + labels_.numel()) + 1;
}

namespace {

// The first of the usual names that is there.
std::string find_file(const std::string& folder, const std::string& name) {
  std::string dotted = name;
  dotted[name.find("-idx")] = '.';
  for (const std::string& candidate : {name, name + ".gz", dotted, dotted + ".gz"}) {
    std::string path = folder;
    path.append(1, '/').append(candidate);
    if (access(path.c_str(), F_OK) == 0) return path;
  }
  ct::detail::fail<IoError>("idx", "there is neither '", name, "' nor '", name, ".gz' in ",
                            printable_path(folder),
                            "; give the folder that holds the four files of the data set");
}

}  // namespace

ImageDataset idx(const std::string& folder, Split split, IdxOptions options) {
  const std::string part = split == Split::train ? "train" : "t10k";
  const std::string image_path = find_file(folder, part + "-images-idx3-ubyte");
  const std::string label_path = find_file(folder, part + "-labels-idx1-ubyte");
  const Tensor images = read_idx(image_path), bytes = read_idx(label_path);
  CT_CHECK(images.dtype() == DType::u8 && images.dim() == 3, IoError, "idx", printable_path(image_path),
           " holds ", describe(images), "; images are u8[n, height, width]", kHelp);
  CT_CHECK(bytes.dtype() == DType::u8 && bytes.dim() == 1, IoError, "idx", printable_path(label_path),
           " holds ", describe(bytes), "; labels are u8[n]", kHelp);
  CT_CHECK(images.shape()[0] == bytes.shape()[0], IoError, "idx", printable_path(image_path), " holds ",
           images.shape()[0], " images and ", printable_path(label_path), " ", bytes.shape()[0], " labels",
           kHelp);
  const Tensor labels = Tensor::allocate(bytes.shape(), DType::i64, cpu);
  std::copy_n(bytes.data<std::uint8_t>(), bytes.numel(), labels.data<std::int64_t>());
  return ImageDataset(images, labels, options);
}

}  // namespace ct::data
