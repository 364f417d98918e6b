# Placing, joining and reporting collectives.
mt_library(MtPlacement
  BucketCollectives.cpp
  OverlapCollectives.cpp
  PlaceCollectives.cpp
  Renumber.cpp
  Report.cpp
  LINK MtAnalysis)
