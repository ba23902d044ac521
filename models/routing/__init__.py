"""Problems and declarative models of mixed routing (paper 4)."""
