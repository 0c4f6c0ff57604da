//! What a build without the BPF objects has in their place: the same functions, which say so.

/// TCP Nice in the kernel.
pub mod control {
    use super::super::{BpfError, Loaded, Parameters};

    /// A process's claim on TCP Nice; cannot be had.
    #[derive(Debug)]
    pub enum Hold {}

    /// Says that this build cannot.
    ///
    /// # Errors
    /// Always.
    pub fn hold(_parameters: Option<&Parameters>) -> Result<Hold, BpfError> {
        Err(BpfError::NotBuilt)
    }

    /// Says that this build cannot.
    ///
    /// # Errors
    /// Always.
    pub fn load(_parameters: Option<&Parameters>) -> Result<bool, BpfError> {
        Err(BpfError::NotBuilt)
    }

    /// Says that this build cannot.
    ///
    /// # Errors
    /// Always.
    pub fn unload() -> Result<bool, BpfError> {
        Err(BpfError::NotBuilt)
    }

    /// Nothing that this build knows of.
    pub fn status() -> Option<Loaded> {
        None
    }
}

/// The programs of a cgroup.
pub mod background {
    use std::os::fd::BorrowedFd;

    use super::super::{BpfError, Counts, Parameters};

    /// What the sockets of a cgroup are to do.
    #[derive(Clone, Copy, Debug)]
    pub struct Governing<'a> {
        /// The congestion control of whatever sends; none to leave that alone.
        pub sending: Option<&'a str>,
        /// Parameters by which receiving is held back; none to leave that alone.
        pub receiving: Option<Parameters>,
    }

    /// The programs; cannot be had.
    #[derive(Debug)]
    pub enum Background {}

    impl Background {
        /// Says that this build cannot.
        ///
        /// # Errors
        /// Always.
        pub fn attach(_cgroup: BorrowedFd<'_>, _governing: &Governing<'_>) -> Result<Self, BpfError> {
            Err(BpfError::NotBuilt)
        }

        /// Nothing.
        pub fn receivers(&self) -> Option<u32> {
            match *self {}
        }

        /// Nothing.
        pub fn counts(&self) -> Counts {
            match *self {}
        }
    }
}

/// The sockets that Nice governs.
pub mod sockets {
    use super::super::BpfError;
    use crate::nice::Socket;

    /// Tells the sockets; cannot be had.
    #[derive(Debug)]
    pub enum Sockets {}

    /// Says that this build cannot.
    ///
    /// # Errors
    /// Always.
    pub fn all() -> Result<Vec<Socket>, BpfError> {
        Err(BpfError::NotBuilt)
    }

    impl Sockets {
        /// Says that this build cannot.
        ///
        /// # Errors
        /// Always.
        pub fn open(_receivers: Option<u32>) -> Result<Self, BpfError> {
            Err(BpfError::NotBuilt)
        }

        /// Nothing.
        ///
        /// # Errors
        /// Never.
        pub fn read(&self) -> Result<Vec<Socket>, BpfError> {
            match *self {}
        }
    }
}
