package oracle;

import java.util.Map;

/** Answers the requests of one family: {@code {"family": "classic"}} goes to the class {@code oracle.Classic}. */
public interface Handler {
    /** The answer as maps, lists, strings, numbers, booleans and null; anything thrown becomes an error answer. */
    Object answer(Map<String, Object> request) throws Exception;
}
