# Placing, joining and reporting collectives.
mt_library(MtPlacement
  BucketCollectives.cpp
  PlaceCollectives.cpp
  Report.cpp
  LINK MtAnalysis)
