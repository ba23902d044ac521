"""Problems and declarative models of minimum-cost load balancing (paper 1)."""
