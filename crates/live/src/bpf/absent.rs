//! Replacements for a build without the BPF objects: the same functions, which return an error.

/// TCP Nice in the kernel.
pub mod control {
    use warpline_transport::cc::NiceParams;

    use super::super::{BpfError, Loaded};

    /// A process's claim on TCP Nice; never exists in this build.
    #[derive(Debug)]
    pub enum Hold {}

    impl Hold {
        /// Never called in this build.
        pub fn parameters(&self) -> NiceParams {
            match *self {}
        }
    }

    /// Returns an error: this build lacks the BPF objects.
    ///
    /// # Errors
    /// Always.
    pub fn hold(_parameters: Option<&NiceParams>) -> Result<Hold, BpfError> {
        Err(BpfError::NotBuilt)
    }

    /// Returns an error: this build lacks the BPF objects.
    ///
    /// # Errors
    /// Always.
    pub fn load(_parameters: Option<&NiceParams>) -> Result<bool, BpfError> {
        Err(BpfError::NotBuilt)
    }

    /// Returns an error: this build lacks the BPF objects.
    ///
    /// # Errors
    /// Always.
    pub fn unload() -> Result<bool, BpfError> {
        Err(BpfError::NotBuilt)
    }

    /// Always `None` in this build.
    pub fn status() -> Option<Loaded> {
        None
    }
}

/// The programs of a cgroup.
pub mod background {
    use std::os::fd::BorrowedFd;

    use warpline_transport::cc::NiceParams;

    use super::super::{BpfError, Counts};

    /// What the sockets of a cgroup should do.
    #[derive(Clone, Copy, Debug)]
    pub struct Governing<'a> {
        /// The congestion control for sending; `None` leaves it alone.
        pub sending: Option<&'a str>,
        /// Parameters that limit receiving; `None` leaves it alone.
        pub receiving: Option<NiceParams>,
    }

    /// The programs; never exist in this build.
    #[derive(Debug)]
    pub enum Background {}

    impl Background {
        /// Returns an error: this build lacks the BPF objects.
        ///
        /// # Errors
        /// Always.
        pub fn attach(_cgroup: BorrowedFd<'_>, _governing: &Governing<'_>) -> Result<Self, BpfError> {
            Err(BpfError::NotBuilt)
        }

        /// Always `None`.
        pub fn receivers(&self) -> Option<u32> {
            match *self {}
        }

        /// Always zero.
        pub fn counts(&self) -> Counts {
            match *self {}
        }
    }
}

/// The sockets that Nice controls.
pub mod sockets {
    use super::super::{BpfError, Socket};

    /// Lists the sockets; never exists in this build.
    #[derive(Debug)]
    pub enum Sockets {}

    /// Returns an error: this build lacks the BPF objects.
    ///
    /// # Errors
    /// Always.
    pub fn all() -> Result<Vec<Socket>, BpfError> {
        Err(BpfError::NotBuilt)
    }

    impl Sockets {
        /// Returns an error: this build lacks the BPF objects.
        ///
        /// # Errors
        /// Always.
        pub fn open(_receivers: Option<u32>) -> Result<Self, BpfError> {
            Err(BpfError::NotBuilt)
        }

        /// Always empty.
        ///
        /// # Errors
        /// Never.
        pub fn read(&self) -> Result<Vec<Socket>, BpfError> {
            match *self {}
        }
    }
}
