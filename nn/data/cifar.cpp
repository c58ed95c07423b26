#include <cotangent/nn/data/cifar.h>

#include <cstring>
#include <memory>
#include <vector>

#include <cotangent/nn/data/cifar_internal.h>

namespace ct::data {
namespace {

constexpr char kReadCifar[] = "read_cifar10";
constexpr std::int64_t kPixels = 3 * 32 * 32, kRecord = 1 + kPixels, kClasses = 10;

// The records of several files, one after the other.
ImageDataset read(const std::vector<const io::ByteSource*>& sources, IdxOptions options) {
  std::int64_t count = 0;
  for (const io::ByteSource* source : sources) {
    source->check(
        source->size() > 0 && source->size() % kRecord == 0, kReadCifar, "has ", source->size(),
        " bytes, no multiple of ", kRecord,
        " (a label and an image); it is truncated, packed or of another kind: unpack the binary version");
    count += static_cast<std::int64_t>(source->size()) / kRecord;
  }
  const Tensor images = Tensor::allocate({count, 3, 32, 32}, DType::u8, cpu);
  const Tensor labels = Tensor::allocate({count}, DType::i64, cpu);
  auto* pixels = images.data<std::uint8_t>();
  auto* label = labels.data<std::int64_t>();
  std::vector<std::uint8_t> record(kRecord);
  for (const io::ByteSource* source : sources) {
    for (std::uint64_t at = 0; at < source->size(); at += kRecord, pixels += kPixels) {
      source->read(at, record.data(), record.size());
      source->check(record[0] < kClasses, kReadCifar, "has the label ", int{record[0]}, " at byte ", at,
                    "; labels are 0 to 9: it is damaged or of another kind");
      *label++ = record[0];
      std::memcpy(pixels, record.data() + 1, kPixels);
    }
  }
  return ImageDataset(images, labels, options);
}

}  // namespace

ImageDataset read_cifar10(const io::ByteSource& source, IdxOptions options) {
  return read({&source}, options);
}

ImageDataset read_cifar10(const std::string& path, IdxOptions options) {
  return read_cifar10(*io::open_file(kReadCifar, path), options);
}

ImageDataset cifar10(const std::string& folder, Split split, IdxOptions options) {
  std::vector<std::unique_ptr<io::ByteSource>> files;
  if (split == Split::test) {
    files.push_back(io::open_file("cifar10", folder + "/test_batch.bin"));
  } else {
    for (int i = 1; i <= 5; ++i)
      files.push_back(io::open_file("cifar10", folder + "/data_batch_" + std::to_string(i) + ".bin"));
  }
  std::vector<const io::ByteSource*> sources;
  for (const auto& file : files) sources.push_back(file.get());
  return read(sources, options);
}

}  // namespace ct::data
