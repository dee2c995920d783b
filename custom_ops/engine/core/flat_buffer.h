// The tensors of an operation seen as one buffer: offsets run through them one after the
// other. This is what fuses them: nothing is copied to a staging buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tfring {

class FlatBuffer {
 public:
  struct Piece {
    const uint8_t* input;
    uint8_t* output;
    size_t bytes;
  };

  void Clear() {
    pieces_.clear();
    ends_.clear();
  }

  void Reserve(size_t pieces) {
    pieces_.reserve(pieces);
    ends_.reserve(pieces);
  }

  // Empty pieces are left out.
  void Append(const uint8_t* input, uint8_t* output, size_t bytes) {
    if (bytes == 0) return;
    pieces_.push_back({input, output, bytes});
    ends_.push_back(size() + bytes);
  }

  size_t size() const { return ends_.empty() ? 0 : ends_.back(); }

  // Calls visit(piece) for the parts that make up [offset, offset + bytes), in order.
  template <class Visit>
  void ForEach(size_t offset, size_t bytes, Visit visit) const {
    if (bytes == 0) return;
    size_t index = std::upper_bound(ends_.begin(), ends_.end(), offset) - ends_.begin();
    while (bytes > 0) {
      const Piece& piece = pieces_[index];
      const size_t skip = offset - (ends_[index] - piece.bytes);
      const size_t part = std::min(bytes, piece.bytes - skip);
      visit(Piece{piece.input == nullptr ? nullptr : piece.input + skip,
                  piece.output == nullptr ? nullptr : piece.output + skip, part});
      offset += part;
      bytes -= part;
      ++index;
    }
  }

 private:
  std::vector<Piece> pieces_;
  std::vector<size_t> ends_;
};

}  // namespace tfring
