#include "examples/mnist/images.h"

#include <cstdint>
#include <cstring>
#include <filesystem>

#include "examples/common/fnv.h"
#include "examples/mnist/drawn_digits.h"

namespace fs = std::filesystem;

namespace {

const char* const kFashionFolder = "/usr/share/datasets/fashion-mnist";
const std::vector<std::string> kDigits = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
const std::vector<std::string> kClothes = {"T-shirt", "trouser", "pullover", "dress", "coat",
                                           "sandal",  "shirt",   "sneaker",  "bag",   "ankle boot"};

// The path of an IDX file, gzipped or not; empty if neither is there.
std::string find_idx(const fs::path& folder, const std::string& stem) {
  for (const char* ending : {".gz", ""})
    if (const fs::path path = folder / (stem + ending); fs::exists(path)) return path.string();
  return {};
}

Images read_images(const std::string& pixels_path, const std::string& labels_path) {
  const ct::Tensor raw = ct::data::read_idx(pixels_path), labels = ct::data::read_idx(labels_path);
  CT_CHECK(raw.dim() == 3 && raw.size(1) == 28 && raw.size(2) == 28, ct::IoError, "mnist", pixels_path,
           " holds ", ct::describe(raw), "; 28 x 28 images are wanted");
  CT_CHECK(labels.dim() == 1 && labels.size(0) == raw.size(0), ct::IoError, "mnist", labels_path, " holds ",
           ct::describe(labels), " for ", raw.size(0), " images; every image needs one label");
  CT_CHECK(raw.dtype() == ct::u8, ct::IoError, "mnist", pixels_path, " holds ", ct::describe(raw),
           "; pixels are bytes");
  Images images{raw, labels.to(ct::i64)};
  for (const auto label : images.labels.to_vector<std::int64_t>())
    CT_CHECK(label >= 0 && label < 10, ct::IoError, "mnist", labels_path, " holds the label ", label,
             "; ten classes are wanted");
  return images;
}

Images narrowed(const Images& all, std::int64_t start, std::int64_t count) {
  return {all.pixels.narrow(0, start, count), all.labels.narrow(0, start, count)};
}

bool mentions_fashion(const fs::path& folder) { return folder.string().find("fashion") != std::string::npos; }

ImageSet read_folder(const fs::path& folder) {
  const std::string train_pixels = find_idx(folder, "train-images-idx3-ubyte");
  const std::string train_labels = find_idx(folder, "train-labels-idx1-ubyte");
  const std::string test_pixels = find_idx(folder, "t10k-images-idx3-ubyte");
  const std::string test_labels = find_idx(folder, "t10k-labels-idx1-ubyte");
  CT_CHECK(!test_pixels.empty() && !test_labels.empty(), ct::IoError, "mnist", folder.string(),
           " has no t10k-images-idx3-ubyte[.gz] and t10k-labels-idx1-ubyte[.gz]; fetch them with "
           "examples/mnist/fetch_mnist.sh, or leave --data out");
  ImageSet set;
  set.name = (mentions_fashion(folder) ? "Fashion-MNIST (" : "MNIST (") + folder.string() + ")";
  // Not simplified: behind a symbolic link, `..` is the folder above what it points to.
  set.folder = fs::absolute(folder).string();
  set.classes = mentions_fashion(folder) ? kClothes : kDigits;
  const Images test = read_images(test_pixels, test_labels);
  if (train_pixels.empty() || train_labels.empty()) {
    const std::int64_t count = test.labels.size(0), train_count = count * 4 / 5;
    set.note = ct::detail::cat("only the t10k files are there: training on the first ", train_count,
                               " of them, testing on the last ", count - train_count);
    set.train = narrowed(test, 0, train_count);
    set.test = narrowed(test, train_count, count - train_count);
    return set;
  }
  set.train = read_images(train_pixels, train_labels);
  set.test = test;
  return set;
}

}  // namespace

ImageSet load_images(const std::string& directory, bool drawn, std::uint64_t seed) {
  if (!directory.empty()) return read_folder(directory);
  if (!drawn && fs::exists(kFashionFolder)) return read_folder(kFashionFolder);
  ImageSet set;
  set.name = "digits drawn by this program";
  set.note = "the digits are drawn, not handwritten, and far easier than MNIST";
  if (!drawn)
    set.note = "no data set was found: " + set.note +
               "; install the package dataset-fashion-mnist, or fetch MNIST with "
               "examples/mnist/fetch_mnist.sh and pass --data";
  set.classes = kDigits;
  set.train = draw_digits(10000, seed);
  set.test = draw_digits(2000, seed + 1);
  return set;
}

ct::data::ImageDataset dataset_of(const ImageSet& set, const Images& part) {
  const ct::Tensor pixels = set.train.pixels.to(ct::f32);
  const double mean = pixels.mean().item() / 255, std = ct::stddev(pixels).item() / 255;
  return {part.pixels, part.labels, {.mean = mean, .std = std > 0 ? std : 1}};
}

std::string fingerprint(const ImageSet& images) {
  std::string text;
  for (const Images* part : {&images.train, &images.test}) {
    Fnv fnv;
    const std::uint8_t* pixels = part->pixels.data<std::uint8_t>();
    for (std::int64_t i = 0; i + 8 <= part->pixels.numel(); i += 8) {  // an image is 98 words
      std::uint64_t word = 0;
      std::memcpy(&word, pixels + i, sizeof word);
      fnv.add(word);
    }
    for (const std::int64_t label : part->labels.to_vector<std::int64_t>())
      fnv.add(static_cast<std::uint64_t>(label));
    text += std::to_string(part->labels.size(0)) + ':' + std::to_string(fnv.hash) + ' ';
  }
  return text;
}
