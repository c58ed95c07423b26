#include "examples/mnist/run_folder.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "examples/common/svg.h"

namespace fs = std::filesystem;

namespace {

const char* const kHeader =
    "epoch,train_loss,train_accuracy,test_loss,test_accuracy,lr,seconds,samples_per_s\n";

std::string default_folder() {
  const std::time_t now = std::time(nullptr);
  char text[64];
  std::strftime(text, sizeof text, "runs/mnist-%Y%m%d-%H%M%S", std::localtime(&now));
  std::string folder = text;
  // Two runs in one second get folders of their own.
  for (int i = 2; fs::exists(folder); ++i) folder = std::string(text) + "-" + std::to_string(i);
  return folder;
}

// The lines of an earlier part of a resumed run.
std::vector<Metrics> read_metrics(const std::string& path) {
  std::vector<Metrics> all;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  for (char comma; std::getline(file, line);) {
    Metrics m;
    std::istringstream in(line);
    if (in >> m.epoch >> comma >> m.loss >> comma >> m.accuracy >> comma >> m.test_loss >> comma >>
        m.test_accuracy >> comma >> m.lr >> comma >> m.seconds >> comma >> m.samples_per_s)
      all.push_back(m);
  }
  return all;
}

}  // namespace

RunFolder::RunFolder(const Options& o) {
  path_ = !o.out.empty()     ? o.out
          : o.resume.empty() ? default_folder()
                             : fs::path(checkpoint_in(o.resume)).parent_path().string();
  if (path_.empty()) path_ = std::string(".");  // not = ".": a false alarm of g++ 12
  std::error_code error;
  fs::create_directories(path_, error);
  CT_CHECK(!error, ct::IoError, "mnist", "can't make the run folder ", path_, ": ", error.message(),
           "; choose another with --out");
  if (!o.resume.empty()) metrics_ = read_metrics(path_ + "/metrics.csv");
}

std::string RunFolder::checkpoint_in(const std::string& path) {
  const std::string file = fs::is_directory(path) ? path + "/checkpoint-last.safetensors" : path;
  CT_CHECK(fs::exists(file), ct::IoError, "mnist", "there is no checkpoint ", file,
           "; --resume takes a run folder or a checkpoint file");
  return file;
}

void RunFolder::write(const std::string& name, const std::string& text) const {
  ct::io::write_file(path_ + "/" + name, text);
}

void RunFolder::add_metrics(const Metrics& metrics) {
  std::erase_if(metrics_, [&](const Metrics& m) { return m.epoch >= metrics.epoch; });
  metrics_.push_back(metrics);
  std::ostringstream csv;
  csv << kHeader;
  svg::Curve train{"training loss", "#1f6fb4", {}, {}}, test{"test loss", "#d9541e", {}, {}};
  for (const Metrics& m : metrics_) {
    csv << m.epoch << ',' << m.loss << ',' << m.accuracy << ',' << m.test_loss << ',' << m.test_accuracy
        << ',' << m.lr << ',' << m.seconds << ',' << m.samples_per_s << '\n';
    train.x.push_back(static_cast<double>(m.epoch)), train.y.push_back(m.loss);
    test.x.push_back(static_cast<double>(m.epoch)), test.y.push_back(m.test_loss);
  }
  write("metrics.csv", csv.str());
  write("loss.svg", svg::chart("Loss by epoch", "epoch", "cross-entropy", {train, test}));
}

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
