"""Problems and declarative models of interval migration (paper 5)."""
