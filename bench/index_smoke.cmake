# Runs index_bench on small tables, in a new directory. Its results are RESULTS/generated.json and packages.json.
file(REMOVE_RECURSE ${DIRECTORY})
file(MAKE_DIRECTORY ${DIRECTORY})
file(WRITE ${DIRECTORY}/packages.tsv "key\tcolour\tparts\na\tred\tx,y\nb\tblue\t\nc\tred\ty\nd\t\tz,z\n")
execute_process(COMMAND ${PROGRAM} generated ${DIRECTORY}/generated 3000 8 4 100 0.1
  --benchmark_out=${RESULTS}/generated.json --benchmark_out_format=json
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROGRAM} table ${DIRECTORY}/packages.tsv colour,parts:comma
  ${DIRECTORY}/index 2 2 0.1 --benchmark_out=${RESULTS}/packages.json --benchmark_out_format=json
  COMMAND_ERROR_IS_FATAL ANY)
file(READ ${RESULTS}/packages.json raw)
string(REGEX MATCHALL "\"run_type\": \"iteration\"" rows "${raw}")
list(LENGTH rows rows)
if(NOT rows EQUAL 7)  # one for loading, and three for each of two columns
  message(FATAL_ERROR "packages.json: ${rows} rows instead of 7")
endif()
file(REMOVE_RECURSE ${DIRECTORY})
