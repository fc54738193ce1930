// A built-in's hash and equality are made from its function pointer, so tables
// keyed by built-ins (torch has many) would lose their entries when the
// pointer is exchanged. While we intercept, both look at the original pointer.
#pragma once

namespace cutaway {

void keep_identity();     // from the first exchange on
void give_up_identity();  // when everything has been put back

}  // namespace cutaway
