// Native calls at the bottom of a library that is Python above (TensorFlow): what matters is which
// operator was asked for, and which line outside of the library asked.
#pragma once
#include <string>

namespace cutaway {

void add_library(std::string path);  // files whose paths begin so belong to it

}  // namespace cutaway
