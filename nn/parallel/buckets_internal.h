#pragma once

#include <functional>
#include <string>
#include <vector>

#include <cotangent/nn/parallel/data_parallel.h>

namespace ct::nn::detail {

/// Gradients of a model, in flat pieces.
struct Buckets {
  /// A parameter's place.
  struct Place {
    std::string name;
    Tensor param, view;  // of the bucket, in the parameter's shape
    std::size_t bucket;
    std::int64_t begin;
    std::uint64_t hook = 0;
    bool arrived = false;
  };
  struct Bucket {
    Tensor flat;  // a multiple of the ranks' number of elements; zeros between the gradients
    Tensor wire;  // the same in another dtype; undefined where there is none
    std::vector<std::size_t> members;
    std::size_t left = 0;  // gradients that are not there yet
  };

  Buckets(const Module& module, const dist::Group& group, const DataParallelOptions& options);
  ~Buckets();
  void arrive(std::size_t place);
  void synchronize();
  std::size_t place_of(const Tensor& param, const char* op) const;

  dist::Group group;
  std::vector<Place> places;
  std::vector<Bucket> buckets;
  std::size_t next = 0;           // bucket to reduce
  int off = 0;                    // NoSync scopes
  std::function<void()> reduced;  // called when all gradients are the means

 private:
  void come_home(Place& place);
  void launch();
  void finish();
};

}  // namespace ct::nn::detail
