//! The engine under a seed: virtual clock, virtual workers, faults and checkers
