//! Nothing: this package only names where sources come from.
