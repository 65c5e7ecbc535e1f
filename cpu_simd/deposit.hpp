// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace scbf {

/// Does this machine have `pdep`, and is it worth using (SelectByDeposit)? It is one fast
/// instruction on Intel since Haswell and on AMD since Zen 3. AMD's processors with AVX2 before
/// that have it, too, but take up to a hundred times as long. Found out at the first call, in some
/// microseconds.
bool deposit_is_fast() noexcept;

}  // namespace scbf
