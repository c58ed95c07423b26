#include "examples/mnist/misclassified.h"

#include "examples/common/svg.h"

std::string draw_misclassified(const ImageSet& images, const std::vector<WrongImage>& wrong,
                               std::int64_t total) {
  std::vector<svg::Picture> pictures;
  for (const WrongImage& w : wrong) {
    svg::Picture& p = pictures.emplace_back();
    p.pixels = images.test.pixels[w.index].to_vector<float>();
    for (float& v : p.pixels) v /= 255;
    p.caption = images.classes[static_cast<std::size_t>(w.label)] + "\nsaid " +
                images.classes[static_cast<std::size_t>(w.guess)];
  }
  const std::string title = std::to_string(total) + " of " + std::to_string(images.test.labels.size(0)) +
                            " test images are wrong; the first " + std::to_string(wrong.size());
  return svg::sheet(title, pictures, 28, 10);
}
