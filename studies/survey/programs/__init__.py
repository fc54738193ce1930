"""The programs of the survey as users of each library write them. None is annotated: naming their time is Cutaway's job."""
