#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

// Model of a GPU's memories: sectors and banks that the 32 addresses of a warp's access take, on any machine.

namespace book {

/// Number of sectors of 32 bytes, the unit of memory, that hold the wanted bytes: `each` bytes from each address on.
inline int sectors(const std::vector<long>& addresses, int each = 4) {
  std::set<long> touched;
  for (const long first : addresses)
    for (long byte = first; byte < first + each; byte += 4) touched.insert(byte / 32);
  return static_cast<int>(touched.size());
}

/// Number of turns in which shared memory serves a warp that wants these words of 4 bytes. Word w lies in bank w modulo
/// 32, and a bank gives one word a turn, to all that want it.
inline int bank_turns(const std::vector<long>& words) {
  std::map<long, std::set<long>> of_bank;
  for (const long word : words) of_bank[word % 32].insert(word);
  std::size_t most = 0;
  for (const auto& [bank, wanted] : of_bank) most = std::max(most, wanted.size());
  return static_cast<int>(most);
}

}  // namespace book
