//! Examples of Ratekeeper, one file each beside this package; see `README.md`.
