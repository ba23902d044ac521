"""Problems and declarative models of key splitting (paper 3)."""
