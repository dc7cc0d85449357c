/// The outcome of a failed gRPC call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The caller gave the call up.
    Cancelled = 1,
    /// Nothing more is known.
    Unknown = 2,
    /// The request itself is at fault.
    InvalidArgument = 3,
    /// The time for the call ran out.
    DeadlineExceeded = 4,
    /// What was asked for does not exist.
    NotFound = 5,
    /// What was to be made exists.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A quota or a resource of the server is used up.
    #[default]
    ResourceExhausted = 8,
    /// The system is not in the state that the call needs.
    FailedPrecondition = 9,
    /// The call was given up, mostly for a conflict with another.
    Aborted = 10,
    /// The request lies outside what there is.
    OutOfRange = 11,
    /// The server does not offer this.
    Unimplemented = 12,
    /// The server is broken.
    Internal = 13,
    /// The service is away for now; clients try again by default.
    Unavailable = 14,
    /// Data was lost for good.
    DataLoss = 15,
    /// The caller is not known.
    Unauthenticated = 16,
}

impl Code {
    /// Returns the number that stands for the code in `grpc-status`.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}
