use std::{error::Error, fmt};

/// One way of telling a client in header fields how much it has left.
///
/// The fields have no standard: a working-group draft has changed them several times, and many services use names of their own.
/// Name the form that the clients read.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::fields::{FieldFormat, FieldFormats, Reset};
///
/// assert_eq!(FieldFormats::default(), FieldFormats::from(FieldFormat::Draft11));
///
/// // New clients read the draft, older ones the names that GitHub made common.
/// let both = [FieldFormat::Draft11, FieldFormat::XRateLimit { reset: Reset::Epoch }];
/// assert!(FieldFormats::new(both).is_ok());
///
/// // Two revisions of the draft use the same names for different values.
/// assert!(FieldFormats::new([FieldFormat::Draft11, FieldFormat::Draft07]).is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldFormat {
    /// Revisions 08 to 11 of the draft: `RateLimit: "name";r=99;t=50` and `RateLimit-Policy: "name";q=100;w=60`.
    ///
    /// Both are lists with one item for each policy, the most constrained policy first in `RateLimit`.
    #[default]
    Draft11,
    /// Revision 07 of the draft: `RateLimit: limit=100, remaining=50, reset=5` and `RateLimit-Policy: 100;w=60`.
    ///
    /// `RateLimit` carries the most constrained policy whose reset is known. `RateLimit-Policy` leaves out policies without a
    /// window, and of several with the same quota names the one with the longest window.
    Draft07,
    /// Revisions 04 to 06 of the draft: `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` and `RateLimit-Policy`.
    ///
    /// The same policies are chosen as for [`FieldFormat::Draft07`].
    Draft06,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` for the most constrained policy.
    ///
    /// The last is left out where the reset is not known.
    XRateLimit {
        /// What `X-RateLimit-Reset` counts.
        reset: Reset,
    },
}

/// What the number in `X-RateLimit-Reset` means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds since the Unix epoch, as GitHub sends them.
    #[default]
    Epoch,
    /// Seconds from now, as Envoy sends them.
    Delta,
}

/// Two chosen formats write the same header fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFormatError {
    first: FieldFormat,
    second: FieldFormat,
}

impl FieldFormatError {
    /// Returns the two formats that cannot be sent together, in the order in which they were chosen.
    #[must_use]
    pub fn formats(&self) -> (FieldFormat, FieldFormat) {
        (self.first, self.second)
    }
}

impl fmt::Display for FieldFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, second } = self;
        write!(
            f,
            "field formats {first:?} and {second:?} use the same header names"
        )
    }
}

impl Error for FieldFormatError {}

/// The formats that are sent side by side; [`FieldFormat::Draft11`] alone by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldFormats {
    /// One of the draft's revisions.
    draft: Option<FieldFormat>,
    /// What the `X-RateLimit-*` fields carry, where they are sent.
    x_rate_limit: Option<Reset>,
}

impl FieldFormats {
    /// Returns the set of the given formats; the same format twice is the same as once.
    ///
    /// # Errors
    ///
    /// Two different formats write the same fields: two revisions of the draft, or `X-RateLimit-*` with two meanings of the reset.
    pub fn new(formats: impl IntoIterator<Item = FieldFormat>) -> Result<Self, FieldFormatError> {
        let mut chosen = Self::none();
        for format in formats {
            let earlier = match format {
                FieldFormat::XRateLimit { reset } => chosen
                    .x_rate_limit
                    .replace(reset)
                    .map(|reset| FieldFormat::XRateLimit { reset }),
                FieldFormat::Draft11 | FieldFormat::Draft07 | FieldFormat::Draft06 => {
                    chosen.draft.replace(format)
                }
            };
            if let Some(first) = earlier.filter(|earlier| *earlier != format) {
                return Err(FieldFormatError {
                    first,
                    second: format,
                });
            }
        }
        Ok(chosen)
    }

    /// Returns the empty set: no fields are sent.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            draft: None,
            x_rate_limit: None,
        }
    }

    /// Returns whether no fields are sent.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.draft.is_none() && self.x_rate_limit.is_none()
    }

    /// Returns whether a reset is sent as a point of calendar time.
    pub(crate) fn needs_epoch(self) -> bool {
        self.x_rate_limit == Some(Reset::Epoch)
    }

    pub(super) fn draft(self) -> Option<FieldFormat> {
        self.draft
    }

    pub(super) fn x_rate_limit(self) -> Option<Reset> {
        self.x_rate_limit
    }
}

impl Default for FieldFormats {
    fn default() -> Self {
        FieldFormat::default().into()
    }
}

impl From<FieldFormat> for FieldFormats {
    fn from(format: FieldFormat) -> Self {
        match format {
            FieldFormat::XRateLimit { reset } => Self {
                draft: None,
                x_rate_limit: Some(reset),
            },
            FieldFormat::Draft11 | FieldFormat::Draft07 | FieldFormat::Draft06 => Self {
                draft: Some(format),
                x_rate_limit: None,
            },
        }
    }
}
