//! Sans-IO TCP.
