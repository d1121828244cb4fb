//! The pure rules of Jobhall: states, transitions, retry, selectors
