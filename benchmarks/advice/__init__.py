"""Advice that was tried: a program for each verdict, the advice applied, the gain against the estimate."""
